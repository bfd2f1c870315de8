package cli

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/provider"
)

// nextSteps are the steps after init, as text.
type nextSteps struct {
	text  strings.Builder
	steps int
	width int  // columns
	folds bool // commands: on a terminal; elsewhere a command is one line
}

func (n *nextSteps) say(format string, args ...any) { fmt.Fprintf(&n.text, format+"\n", args...) }

// next begins the next step.
func (n *nextSteps) next(title string) {
	n.steps++
	n.say("\n%d. %s", n.steps, strings.Join(foldWords(title, n.width-len("1. ")), "\n   "))
}

// printNextSteps prints the result and the next steps.
func (p *program) printNextSteps(b *beginning, w *written, settings *config.Settings) error {
	n := &nextSteps{width: 80}
	if width, isTerminal := terminalWidth(p.stdout); isTerminal {
		n.width, n.folds = max(width, 40), true
	}
	unset := slices.DeleteFunc(slices.Clone(w.variables), func(v envVariable) bool { return p.variable(v.name) != "" })
	names := b.names()
	n.say("Wrote %s and %s.", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
	if len(unset) == 0 {
		n.say("hookonce config check: ok")
	} else {
		n.say("hookonce config check: ok, once %s set", areSet(len(unset)))
		n.next("Give these variables their values, in a copy of " + envExample + ":")
		n.sayVariables(unset)
	}
	if b.forward != "" {
		n.next("Give your application the same APP_SECRET, so that it can refuse the requests of others. Applications to copy:")
		n.say("     %s", build.Page("behind.md"))
	} else {
		n.say("No destination: events are stored only. %s says how to add one.", config.DefaultFile)
	}
	n.next("Start the gateway:")
	n.say("     hookonce serve")
	for i := range settings.Engine.Sources {
		if command := sendCommand(settings, &settings.Engine.Sources[i], localBase(settings)); command != nil {
			n.next("Send an event, from another terminal where the variables are set:")
			n.sayCommand(command)
			break
		}
	}
	n.next("Let the providers send over https, by tls or a proxy:")
	n.say("     %s", build.Page("deploying.md"))
	for _, name := range b.providers {
		n.saySetUp(name)
	}
	_, err := io.WriteString(p.stdout, n.text.String())
	return err
}

// newSecret returns a secret in the form that packages for Standard Webhooks expect.
func newSecret() string {
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(secret)
}

func areSet(n int) string {
	if n == 1 {
		return "1 variable is"
	}
	return fmt.Sprintf("%d variables are", n)
}

// sayVariables says how to set variables, and where their values come from.
func (n *nextSteps) sayVariables(unset []envVariable) {
	longest := 0
	for _, v := range unset {
		longest = max(longest, len(v.name))
	}
	n.say("     install -m 600 %s .env", envExample)
	at := len("       ") + longest + gap
	for _, v := range unset {
		if v.name == appSecret {
			v.about += ", such as"
		}
		about := foldWords(v.about, max(n.width-at, 30))
		n.say("       %-*s%s", longest+gap, v.name, strings.Join(about, "\n"+strings.Repeat(" ", at)))
		if v.name == appSecret {
			n.say("         %s", newSecret())
		}
	}
	n.say("     set -a; . ./.env; set +a")
}

func (n *nextSteps) sayCommand(command commandLine) {
	if n.folds {
		n.say("     %s", command.folded(n.width, len("     ")))
	} else {
		n.say("     %s", command)
	}
}

// saySetUp says the address for a provider, and where to paste it.
func (n *nextSteps) saySetUp(name string) {
	spec, err := provider.Lookup(provider.Name(name))
	if err != nil {
		return
	}
	post, at := "POST "+webhookURL("https://YOUR-HOST", name), "  "
	if len("     ")+text.StringWidthWithoutEscSequences(spec.Title+at+post) > n.width {
		at = "\n       "
	}
	n.say("     %s", spec.Title+at+post)
	if spec.DeliversSecret() {
		n.say("       first: hookonce sources arm %s", name)
	}
	switch paste := "       paste it as in "; {
	case spec.Docs == "":
	case len(paste)+len(spec.Docs) > n.width:
		n.say("       paste it as in\n         %s", spec.Docs)
	default:
		n.say("%s%s", paste, spec.Docs)
	}
}

// localBase returns the address of a gateway with these settings for programs on this machine.
func localBase(settings *config.Settings) string {
	host, port, _ := strings.Cut(config.DefaultListen, ":")
	if settings.Listen != "" {
		at := strings.LastIndex(settings.Listen, ":")
		host, port = settings.Listen[:at], settings.Listen[at+1:]
	}
	if host == "" || host == "0.0.0.0" || host == "[::]" {
		host = "127.0.0.1"
	}
	return "http://" + host + ":" + port
}
