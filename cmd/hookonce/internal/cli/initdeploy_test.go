package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/deploy"
)

// The unit and the compose file run commands of this program.
func TestDeployedCommands(t *testing.T) {
	t.Parallel()
	var commands [][]string
	for line := range strings.Lines(string(deploy.Compose) + string(deploy.Unit)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if command, is := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); is {
			commands = append(commands, strings.Fields(command))
		} else if list := strings.Trim(value, " []"); name == "command" || name == "test" {
			words := strings.Split(strings.NewReplacer("CMD, ", "", `"`, "").Replace(list), ", ")
			if name == "command" {
				words = slices.Insert(words, 0, "/hookonce") // the image names the program
			}
			commands = append(commands, words)
		}
	}
	if len(commands) != 3 {
		t.Fatalf("the commands are %q", commands)
	}
	for _, command := range commands {
		root := (&program{}).rootCommand()
		found, args, err := root.Find(command[1:])
		if err != nil || !slices.Contains([]string{"serve", "ready"}, found.Name()) || found.ParseFlags(args) != nil {
			t.Errorf("%q: %v", command, err)
		}
	}
}
