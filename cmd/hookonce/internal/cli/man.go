package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
)

func (p *program) manCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "man [DIR]",
		Short: "Print the manual page of hookonce, or write those of all commands",
		Long: "Print the manual page of hookonce itself; or write a page for each command into\n" +
			"the folder DIR, which must exist. Pages of hookonce there are replaced.",
		Example: "  hookonce man | man -l -\n  hookonce man /usr/local/share/man/man1",
		Args:    atMostOne("DIR"),
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		root.DisableAutoGenTag = true // pages inherit it
		header := &doc.GenManHeader{Manual: "hookonce", Source: "hookonce " + build.Read().Version, Date: sourceDate()}
		if len(args) == 0 {
			return doc.GenMan(root, header, p.stdout)
		}
		if err := doc.GenManTree(root, header, args[0]); err != nil {
			return app.Errorf("writing the manual pages: %w", err).Try("make the folder, writable for this user")
		}
		return nil
	}
	return cmd
}

// sourceDate returns the date of this program's source, or nil for the current one: pages of one source
// are alike.
func sourceDate() *time.Time {
	at, err := time.Parse(time.RFC3339, build.Read().Date)
	if err != nil {
		return nil
	}
	return &at
}
