package hookadmin

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/shown"
)

// maxCommandBody is the longest body that a command on a page contains, in bytes. A longer one is
// read from the downloaded file.
const maxCommandBody = 4 << 10

// shellQuoted returns s as one word of a POSIX shell.
func shellQuoted(s string) string { return shown.Word(s) }

// unsentHeaders are set by the client itself, or belong to one connection.
var unsentHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// curlCommand returns a command that sends the stored request again, with the headers of the
// sender, and so with the signature that came with it. A body that a terminal cannot take is read
// from file. A header that is not plain text is left out.
func curlCommand(to, file string, headers map[string][]string, body []byte) string {
	words := []string{"curl -X POST " + shellQuoted(to)}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if slices.Contains(unsentHeaders, name) || !plainText(name) {
			continue
		}
		for _, value := range headers[name] {
			if plainText(value) {
				words = append(words, "-H "+shellQuoted(name+": "+value))
			}
		}
	}
	if _, set := headers["Content-Type"]; !set {
		words = append(words, "-H Content-Type:") // otherwise curl adds one
	}
	switch {
	case len(body) == 0:
	case len(body) <= maxCommandBody && visible(string(body)) == string(body) && body[0] != '@':
		words = append(words, "--data-binary "+shellQuoted(string(body)))
	default:
		words = append(words, "--data-binary @"+shellQuoted(file))
	}
	return strings.Join(words, " \\\n  ")
}

// webhookURL returns the address that the provider of a source sends to.
func (h *handler) webhookURL(source string) string {
	return cmp.Or(h.webhooks, "http://127.0.0.1:8080") + "/webhooks/" + url.PathEscape(source)
}

// public reports whether the gateway knows an address that senders elsewhere can reach.
func (h *handler) public() bool {
	u, err := url.Parse(h.webhooks)
	return err == nil && u.Host != "" && !limit.Loopback(u.Hostname())
}

// sendCommand returns the command that sends a first event to a source, as its provider would. The
// secret stays in a variable of the shell.
func (h *handler) sendCommand(s *operate.SourceStatus) string {
	to := shellQuoted(h.webhookURL(s.Name))
	if s.Unsigned {
		return "curl -H 'Content-Type: application/json' -d '" + `{"id":"evt_1","type":"test"}` + "' " + to
	}
	command := "hookonce send " + to + " --provider " + shellQuoted(string(s.Provider))
	if s.Scheme != "" {
		command += " --scheme " + shellQuoted(s.Scheme)
	}
	return command + ` --secret "$SECRET"`
}

// commandsFor returns the commands about an event that its page offers to copy.
func (h *handler) commandsFor(r *http.Request, d *EventDetail) []command {
	if d.BodyPruned {
		return nil
	}
	of := shellQuoted(d.Source) + " " + shellQuoted(d.EventID)
	return []command{
		{
			Title: "As curl",
			About: "The stored request, with the signature that came with it. A receiver may refuse the signature if it is old.",
			Text:  curlCommand(h.webhookURL(d.Source), bodyFile(d.EventID), d.Headers, bytesOf(d.Body, d.BodyBase64)),
		},
		{
			Title: "Send it again, signed",
			About: "The stored request with a new signature, to a URL of yours. The secret is that of the receiver.",
			Text:  "hookonce send http://127.0.0.1:3000/ --from-event " + of + ` --secret "$SECRET" ` + from("admin-url", r),
		},
		{
			Title: "Copies of such events here",
			About: "Copies of all events of this source since it came, and then of new ones. Nothing changes at the gateway.",
			Text: "hookonce listen " + from("from", r) + " --source " + shellQuoted(d.Source) + " --since " +
				time.Time(d.ReceivedAt).UTC().Format(time.RFC3339) + " 3000/",
		},
	}
}

// from returns a flag with the address of this admin API, as the browser of r has it. Beyond this machine it
// is an https one: the token goes there.
func from(flag string, r *http.Request) string {
	scheme := "https://"
	if limit.Loopback(r.Host) {
		scheme = "http://"
	}
	return "--" + flag + " " + shellQuoted(scheme+r.Host+mountedAt(r))
}

// mountedAt returns the path below which the handler is mounted, without a slash at its end; "" for the root.
func mountedAt(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	mount, below := strings.CutSuffix(path, r.URL.EscapedPath())
	if !below || !strings.HasPrefix(mount, "/") || strings.HasPrefix(mount, "//") {
		return "" // a URI of another form, which names no path of this server
	}
	return strings.TrimRight(mount, "/")
}
