package hookonce_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/race"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// largeBody is the body of an ordinary event.
var largeBody = `{"id":"evt_1","object":"event","created":1760000000,"type":"invoice.paid","data":{"object":{` +
	strings.TrimSuffix(strings.Repeat(`"key":"some text","n":12345,"list":[1,true,null],`, 22), ",") + `}}}`

var github = hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("0123456789abcdef")}

func largeDelivery(t testing.TB) *http.Request {
	return hooktest.NewRequest(t, github, largeBody, hooktest.WithEventID("1"), hooktest.WithEventType("push"))
}

// discarded is a client that reads nothing.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header        { return d.header }
func (discarded) Write(p []byte) (int, error)  { return len(p), nil }
func (discarded) WriteHeader(int)              {}
func (d discarded) again() http.ResponseWriter { clear(d.header); return d }
func repeat(r *http.Request, body *bytes.Reader) {
	body.Reset([]byte(largeBody))
	r.Body = io.NopCloser(body)
}

// TestReceivingAllocates bounds the allocations of a delivery before its claim. It is not parallel:
// allocations of other tests would count.
func TestReceivingAllocates(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates too")
	}
	const most = 26
	in := engineOf(t, rig.OpenSQLite(t), settingsOf(github))
	r, w, body := largeDelivery(t), discarded{http.Header{}}, new(bytes.Reader)
	n := testing.AllocsPerRun(1000, func() {
		repeat(r, body)
		if got := hookonce.ReceiveUpToClaim(in, w.again(), r); got != 1 {
			t.Fatalf("%d claims", got)
		}
	})
	if n > most {
		t.Errorf("%v allocations, at most %d are allowed", n, most)
	}
	t.Logf("%v allocations", n)
}

// BenchmarkReceive receives one event again and again. "up to the claim" is the part before it; "known
// event" is all of it, with a look-up in SQLite.
func BenchmarkReceive(b *testing.B) {
	cfg := settingsOf(github)
	cfg.Destinations = []hookonce.Destination{{Name: "app", URL: "http://127.0.0.1:9/", AllowPrivate: true}}
	cfg.Routes = []hookonce.Route{{Name: "all", To: "app"}}
	in := engineOf(b, rig.OpenSQLite(b), cfg)
	r, w, body := largeDelivery(b), discarded{http.Header{}}, new(bytes.Reader)
	for name, receive := range map[string]func(){
		"up to the claim": func() { hookonce.ReceiveUpToClaim(in, w.again(), r) },
		"known event":     func() { in.ServeHTTP(w.again(), r) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				repeat(r, body)
				receive()
			}
		})
	}
}
