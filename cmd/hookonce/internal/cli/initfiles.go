package cli

import (
	"regexp"
	"strings"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/provider"
)

// written are the texts of the files that init writes.
type written struct {
	database  string // as YAML
	forward   string // as YAML; "" for no destination
	sources   string // the entries below sources:
	variables []envVariable
}

// envVariable is a variable that the settings name.
type envVariable struct{ name, about string }

// appSecret holds the secret of the destination.
const appSecret = "APP_SECRET"

// databaseVariable holds the URL of a database with a password.
const databaseVariable = "DATABASE_URL"

// settings returns the texts for the answers.
func (b *beginning) settings() (*written, error) {
	w := &written{database: quotedYAML(b.database)}
	if b.forward != "" {
		w.forward = quotedYAML(b.forward)
	}
	if shown := (config.Settings{Database: b.database}).DatabaseDisplay(); shown != b.database {
		w.database = `"${` + databaseVariable + `}"`
		w.variables = append(w.variables, envVariable{databaseVariable, "the database, with its password: " + shown})
	}
	for _, name := range b.providers {
		spec, err := provider.Lookup(provider.Name(name))
		if err != nil {
			return nil, err
		}
		w.addSource(spec)
	}
	if b.forward != "" {
		w.variables = append(w.variables, envVariable{appSecret, "a new secret, which your application has, too"})
	}
	return w, nil
}

// namedVariable matches a variable in YAML.
var namedVariable = regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`)

// addSource adds the snippet of a provider.
func (w *written) addSource(spec *provider.Spec) {
	title := "  # " + spec.Title
	switch {
	case spec.Docs == "":
	case len(title)+2+len(spec.Docs) > 80:
		title += ":\n  # " + spec.Docs
	default:
		title += ": " + spec.Docs
	}
	w.sources += title + "\n"
	for _, line := range snippetLines(factsOf(spec)) {
		w.sources += line.String()
		if name := namedVariable.FindStringSubmatch(line.text); name != nil && !strings.HasPrefix(strings.TrimSpace(line.text), "#") {
			w.variables = append(w.variables, envVariable{name[1], spec.Title + ": " + line.about})
		}
	}
}

// yaml returns the text of the settings file.
func (w *written) yaml() string {
	target := `
# Without a route, events are stored and end as done with the note "no route".
# They can be replayed once there is one.
#
# destinations:
#   app:
#     url: http://127.0.0.1:3000/hooks
#     # Signs the messages as Standard Webhooks, so that the application can
#     # refuse others:
#     #   ` + build.Page("behind.md") + `
#     secret: "${APP_SECRET}"
#
# routes:
#   - name: all
#     to: app
`
	if w.forward != "" {
		target = `
# Messages are sent again until the application answers 2xx, for about three
# days, under one webhook-id. More keys:
#   ` + build.Page("destinations.md") + `
destinations:
  app:
    url: ` + w.forward + `
    # Signs the messages as Standard Webhooks, so that the application can
    # refuse others:
    #   ` + build.Page("behind.md") + `
    secret: "${APP_SECRET}"

# sources, types and where select events; this route takes all.
routes:
  - name: all
    to: app
`
	}
	return `# Settings of hookonce. All keys:
#   ` + build.Page("settings.md") + `
# ${NAME} is a variable, of the file below or of the environment. This command
# checks the settings:
#   hookonce config check

# Beside this file. SIGHUP reads it again; a running process keeps its
# environment. The user of the gateway must be able to read it.
env_file: .env

# sqlite:PATH needs no server. Several gateways can share one
# postgres://USER@HOST/NAME.
database: ` + w.database + `

# The address of /webhooks/, and nothing else. Providers want https: with tls
# the gateway gets certificates itself; otherwise put a proxy before it.
# tls: {hosts: [hooks.example.com], email: ops@example.com}
listen: "` + config.DefaultListen + `"

# The dashboard, the API and /metrics. An address that others can reach needs a
# token of at least 16 bytes.
admin:
  listen: ` + config.DefaultAdminListen + `
  # token: "${HOOKONCE_ADMIN_TOKEN}"

# Senders, each at /webhooks/NAME. More keys:
#   ` + build.Page("sources.md") + `
sources:
` + w.sources + target
}

func quotedYAML(s string) string {
	if s == word(s) && !strings.HasSuffix(s, ":") {
		return s
	}
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, "${", "$${"), "'", "''") + "'"
}

// env returns the text of .env.example.
func (w *written) env() string {
	var b strings.Builder
	b.WriteString(`# Variables of ` + config.DefaultFile + `. Copy this file, and fill the copy in. The gateway
# reads it; a shell that sends events needs the variables, too:
#   install -m 600 .env.example .env
#   set -a; . ./.env; set +a
# A gateway of another user cannot read that copy: add "-o USER" to install.
# Keep .env out of version control. A value can be file:PATH, too.
`)
	for _, v := range w.variables {
		b.WriteString("\n")
		b.WriteString(snippetLine{v.name + "=", v.about}.String())
	}
	if len(w.variables) == 0 {
		b.WriteString("\n# " + config.DefaultFile + " names no variable yet.\n")
	}
	return b.String()
}
