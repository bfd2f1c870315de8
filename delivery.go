package hookonce

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/reconcile"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/provider"
)

// acceptTimeout bounds the reopening of events by Accept, and the retry of a quarantined request.
const acceptTimeout = 10 * time.Second

// delivery is a request with a verified signature, or an event from the provider's API. Only source.verify makes
// one, source.stored from the quarantine, where only verified requests are, and source.listed from a
// reconcile.Event. Only a delivery can be claimed.
type delivery struct {
	source   *source
	method   string
	header   http.Header // as received
	visible  http.Header // header without shared credentials: the stored and shown form
	rawQuery string
	remote   string     // the client's address; "" from the quarantine
	wire     []byte     // the body as sent and signed
	body     []byte     // the inflated body
	deadline time.Time  // of the answer
	span     *tell.Span // of its receiving; nil without a Tracer
	eventID  string     // of its only event; "" before that is read, and for several
	handled  bool       // its events have work besides their messages: in this process, or by the caller of Verify
}

func (d *delivery) input() *locate.Input {
	return &locate.Input{Header: d.header, Body: d.body, RawQuery: d.rawQuery}
}

// unit returns claims of d for the queue.
func (d *delivery) unit(all []driver.Claim) *claims.Unit {
	return claims.NewUnit(all, d.source.Redelivery == redeliveryReopen, d.deadline)
}

// acceptsEncoding reports whether the source takes h's content encoding.
func (s *source) acceptsEncoding(h http.Header) bool {
	coding := wire.Encoding(h)
	return len(h["Content-Encoding"]) <= 1 && (coding == "" || coding == "gzip" && slices.Contains(s.ContentEncodings, "gzip"))
}

// inflate undoes the content encoding. It runs after the verification.
func (d *delivery) inflate(budget *wire.Budget) (err error) {
	if wire.IsGzip(d.header) {
		d.body, err = wire.Gunzip(d.wire, d.source.MaxBody, budget)
	}
	return err
}

// partHeader returns the stored header of an item, or of another part of a batch.
func (d *delivery) partHeader() http.Header {
	visible := d.visible
	if visible.Get("Content-Encoding") != "" {
		// Items are cut from the inflated body.
		visible = visible.Clone()
		visible.Del("Content-Encoding")
	}
	if d.source.extractor.HasDocument() {
		// Items are stored as JSON, also those of a form or an XML document.
		visible = visible.Clone()
		visible.Set("Content-Type", "application/json")
	}
	return visible
}

// refusedPart returns the part of d for the quarantine that holds an event that the database
// refuses.
func (d *delivery) refusedPart(claim *driver.Claim, refusal error) provider.Malformed {
	m := provider.Malformed{Reason: wire.ErrorText(refusal), Body: claim.Body}
	if d.source.batch {
		m.Part = provider.PartItem
	}
	return m
}

// bodyHash identifies a repeated body. Only the signed part is hashed, so re-encoding does not
// evade it; of an item, all bytes are hashed.
func (d *delivery) bodyHash(body []byte) [sha256.Size]byte {
	if d.source.batch {
		return sha256.Sum256(body)
	}
	return d.source.verifier.BodySum(body)
}

// stored returns a delivery from the quarantine.
func (s *source) stored(q *driver.QuarantinedRequest) (*delivery, error) {
	header, err := wire.ParseHeader(q.Headers)
	if err != nil {
		return nil, err
	}
	return &delivery{
		source: s, method: http.MethodPost, header: header, visible: header, wire: q.Body, body: q.Body,
		deadline: time.Now().Add(max(s.AckTimeout, acceptTimeout)), handled: q.Handled,
	}, nil
}

// listed returns a delivery of an event from the provider's API.
func (s *source) listed(e *reconcile.Event) *delivery {
	return &delivery{
		source: s, method: http.MethodPost, header: e.Header(), visible: e.Header(), wire: e.Body(), body: e.Body(),
		remote: driver.RemoteReconcile, deadline: time.Now().Add(max(s.AckTimeout, acceptTimeout)),
	}
}
