// Command hookonce receives webhooks and makes at-least-once delivery behave
// like exactly-once processing. Package cmd/hookonce/internal/cli is its command line.
package main

import (
	"context"
	"os"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
