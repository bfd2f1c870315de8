package acme

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// authority is a Pebble. It reaches every host, except those whose name begins with "nowhere", at door.
type authority struct {
	directory string
	front     *relay // of its API
	door      *relay // port 443 of the hosts, which leads to a gateway
	trusted   string // file with the certificate of its API
	roots     *x509.CertPool
	orders    atomic.Int64
	requests  atomic.Int64
}

// blocked is a host that gets no certificate from the authority.
const blocked = "blocked.example.com"

// newAuthority starts an authority whose certificates are valid for some seconds.
func newAuthority(t *testing.T, validity uint64) *authority {
	t.Helper()
	a := &authority{front: newRelay(t), door: newRelay(t)}
	silent := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	if err := store.AddBlockedDomain(blocked); err != nil {
		t.Fatal(err)
	}
	issuer := ca.New(silent, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: validity}})
	validator := va.New(silent, 0, a.door.port(), false, resolver(t), store)
	api := wfe.New(silent, store, validator, issuer, []string{"ca.example.com"}, false, false, 1, 1)
	handler := api.Handler()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.requests.Add(1)
		if strings.HasPrefix(r.URL.Path, "/order-plz") {
			a.orders.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.front.lead(server.Listener.Addr().String())
	a.directory = "https://" + a.front.ln.Addr().String() + wfe.DirectoryPath
	a.roots = x509.NewCertPool()
	a.roots.AddCert(issuer.GetRootCert(0).Cert)
	a.trusted = filepath.Join(t.TempDir(), "trusted.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(a.trusted, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// resolver answers questions of DNS, and returns its address.
func resolver(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: ln, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := new(dns.Msg).SetReply(question)
		for _, q := range question.Question {
			switch {
			case strings.HasPrefix(q.Name, "nowhere"):
				answer.Rcode = dns.RcodeNameError
			case q.Qtype == dns.TypeA:
				header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}
				answer.Answer = append(answer.Answer, &dns.A{Hdr: header, A: net.IPv4(127, 0, 0, 1)})
			}
		}
		_ = w.WriteMsg(answer) // the client asks again
	})}
	served := make(chan error, 1)
	go func() { served <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = ln.Close() // Shutdown needs a server that has started
		<-served
	})
	return ln.Addr().String()
}

// relay is an address that leads to another one, or to none. So an address stays the same while the
// process behind it changes. Connections wait until lead is called for the first time.
type relay struct {
	ln   net.Listener
	led  chan struct{} // closed once lead was called
	mu   sync.Mutex
	to   string // "" for none
	open map[net.Conn]bool
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, led: make(chan struct{}), open: make(map[net.Conn]bool)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		r.lead("")
		serving.Wait()
	})
	return r
}

func (r *relay) port() int { return r.ln.Addr().(*net.TCPAddr).Port }

// lead sets where the relay leads to, and cuts its connections.
func (r *relay) lead(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	select {
	case <-r.led:
	default:
		close(r.led)
	}
	for conn := range r.open {
		conn.Close()
	}
}

// target returns a connection to the target, nil if there is none. It notes both connections.
func (r *relay) target(from net.Conn) net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to == "" {
		return nil
	}
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		return nil
	}
	r.open[from], r.open[to] = true, true
	return to
}

func (r *relay) serve(from net.Conn) {
	defer from.Close()
	<-r.led
	to := r.target(from)
	if to == nil {
		return
	}
	defer to.Close()
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // a cut is part of the test
			pair[0].Close()
			pair[1].Close()
		})
	}
	copying.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, from)
	delete(r.open, to)
}

// settings returns the settings of a gateway that gets certificates here.
func (a *authority) settings(hosts ...string) string {
	return fmt.Sprintf(`
database: sqlite:hooks.db
tls: {hosts: [%s], email: ops@example.com, directory: %q, folder: keys}
sources: {lab: {provider: none, event: {id: "body:id"}}}
`, strings.Join(hosts, ", "), a.directory)
}
