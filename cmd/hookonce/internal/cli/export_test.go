package cli

import "github.com/spf13/cobra"

// Root returns the tree of all commands.
func Root() *cobra.Command { return new(program).rootCommand() }
