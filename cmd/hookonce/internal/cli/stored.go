package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/internal/sample"
)

// storedRequest is the request of a stored event, as it is sent again.
type storedRequest struct {
	header http.Header
	body   []byte
	// hidden names the headers with a credential, which is not stored; they are left out.
	hidden []string
}

// errNoBody says that a request cannot be sent again.
var errNoBody = errors.New("its body is gone: it is past its retention, or redacted")

// newStoredRequest takes the request from an event.
func newStoredRequest(event *hookadmin.EventDetail) (*storedRequest, error) {
	if event.BodyPruned {
		return nil, errNoBody
	}
	r := &storedRequest{header: http.Header{}, body: event.BodyBase64}
	if event.Body != nil {
		r.body = []byte(*event.Body)
	}
	if r.body == nil {
		r.body = []byte{}
	}
	var named []string // the headers of one connection
	for _, value := range event.Headers["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			named = append(named, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	for _, name := range sortedNames(event.Headers) {
		values := event.Headers[name]
		switch {
		case slices.Contains(values, headers.Secret):
			r.hidden = append(r.hidden, name)
		case slices.Contains(leftOut, name) || slices.Contains(named, name) || hasPrefix(name, leftOutPrefixes):
		default:
			r.header[name] = slices.Clone(values)
		}
	}
	return r, nil
}

// leftOut are the headers that a copy of a request does not have: those about one connection (RFC
// 9110, 7.6.1), and those of the host and the proxies that received it.
var (
	leftOut = []string{
		"Accept-Encoding", "Connection", "Content-Length", "Expect", "Forwarded", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Via", "X-Real-Ip",
	}
	leftOutPrefixes = []string{"X-Forwarded-"}
)

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// withoutOtherSignatures removes the signatures of the provider's other schemes: those would be of
// another body or secret.
func (r *storedRequest) withoutOtherSignatures(s *sample.Sender) {
	for i := range s.Spec.Schemes {
		if other := &s.Spec.Schemes[i]; !strings.EqualFold(other.Header, s.Scheme.Header) {
			r.header.Del(other.Header)
		}
	}
}

// whole makes the body one that the provider sends: an item of a batch is stored alone.
func (r *storedRequest) whole(s *sample.Sender) error {
	body, err := s.Whole(r.body)
	if err == nil {
		r.body = body
	}
	return err
}

// readStored reads the event of --from-event. The provider and the scheme are those of its source,
// unless flags name others.
func (p *program) readStored(ctx context.Context, s *sending, eventID string) error {
	f := s.flags
	return p.withAPI(ctx, f.api, reads, func(ctx context.Context, api *api) error {
		event, err := api.Event(ctx, f.fromEvent, eventID)
		if errors.Is(err, driver.ErrNotFound) {
			return noEvent(ctx, api.Client, f.fromEvent, eventID)
		}
		if err != nil {
			return fmt.Errorf("reading an event: %w", err)
		}
		if s.stored, err = newStoredRequest(event); err != nil {
			return app.Errorf("event %q of source %q cannot be sent: %w", eventID, f.fromEvent, err).
				Try("hookonce events list --source " + word(f.fromEvent) + " shows newer ones; --sample makes one")
		}
		if f.provider != "" {
			return nil
		}
		source, err := api.source(ctx, f.fromEvent)
		if err != nil {
			return err
		}
		if source == nil {
			return f.usage("--provider is missing: source %q is not in the settings, so its provider is not known", f.fromEvent)
		}
		f.provider = source.Provider
		if f.scheme == "" {
			f.scheme = source.Scheme
		}
		return nil
	})
}

// source returns a source of the settings, or nil if there is none of this name.
func (a *api) source(ctx context.Context, name string) (*hookadmin.Source, error) {
	page, err := a.Sources(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the sources: %w", err)
	}
	i := slices.IndexFunc(page.Sources, func(s hookadmin.Source) bool { return s.Name == name })
	if i < 0 {
		return nil, nil
	}
	return &page.Sources[i], nil
}

// useStored prepares a stored request to be sent. Its body stays as it is, unless --id or --type
// changes it.
func (f *sendFlags) useStored(s *sending) error {
	s.stored.withoutOtherSignatures(s.sender)
	if err := s.stored.whole(s.sender); err != nil {
		return err
	}
	if f.id == "" && f.eventType == "" {
		s.body = s.stored.body
	} else if s.stored.header.Get("Content-Encoding") != "" {
		return f.usage("--id and --type: the stored body is compressed, so it is not changed")
	}
	return nil
}
