package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/send"
)

// asDestination makes the requests that one destination gets.
type asDestination struct {
	name, secret string
	sender       *send.Sender
}

// newAs returns the destination of --as. Its secret is that of --secret, or of settings, which are nil for a
// gateway elsewhere: the API does not tell secrets.
func (l *listener) newAs(ctx context.Context, client *adminclient.Client, settings *config.Settings) (*asDestination, error) {
	f := l.flags
	others := []filterFlag{{name: "key"}, {name: "scheme"}, {name: "param"}, {name: "signature"}, {name: "url"}}
	if flags := given(f.cmd, others); len(flags) > 0 {
		return nil, f.usage("--as and --%s exclude each other: copies are signed as the gateway signs", flags[0])
	}
	page, err := client.Destinations(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the destinations of the gateway: %w", err)
	}
	var names []string
	var found *hookadmin.DestinationSettings
	for _, d := range page.Destinations {
		if names = append(names, d.Name); d.Name == f.as {
			found = d.Settings
		}
	}
	if found == nil {
		return nil, f.usage("--as: %q is not in the settings of the gateway; it has %s", f.as, orDash(strings.Join(names, ", ")))
	}
	a := &asDestination{name: f.as, sender: send.New(nil)}
	switch texts, err := f.secretTexts(); {
	case err != nil:
		return nil, err
	case len(texts) > 1:
		return nil, f.usage("--secret: a copy is signed with one")
	case len(texts) == 1:
		if _, err := send.CheckSecret(texts[0]); err != nil {
			return nil, f.usage("--secret: %w", err)
		}
		a.secret = texts[0]
	case settings != nil:
		i := slices.IndexFunc(settings.Engine.Destinations, func(d hookonce.Destination) bool { return d.Name == f.as })
		if i >= 0 {
			a.secret = settings.Engine.Destinations[i].Secret
		}
	}
	if a.secret == "" && found.Signed {
		return nil, f.usage("--as: destination %q is signed; add --secret SECRET, which your application knows", f.as)
	}
	return a, nil
}

// message returns the message to the destination; nil if the event has none.
func (a *asDestination) message(event *hookadmin.EventDetail) *send.Message {
	i := slices.IndexFunc(event.Messages, func(m hookadmin.Message) bool { return m.Destination == a.name })
	if i < 0 {
		return nil
	}
	m := &event.Messages[i]
	return &send.Message{
		ID: m.ID, Source: event.Source, EventID: event.EventID, Type: event.Type,
		Attempt: max(m.Attempts, 1), Generation: m.Generation,
	}
}

// header returns the header of a request with a message of this header and body.
func (a *asDestination) header(m send.Message, header http.Header, body []byte) (http.Header, error) {
	m.Header, m.Body = header, body
	return a.sender.Header(a.secret, &m)
}
