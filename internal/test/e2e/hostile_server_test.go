package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ledger is the work that a destination has done. It dedupes by webhook-id alone, as the docs tell
// destinations to, and has no other guard against doing work twice.
type ledger struct {
	mu       sync.Mutex
	requests []*received
	done     map[string]bool // by webhook-id
	effects  []string        // event ids, in the order of the effects
}

// saw records a request.
func (l *ledger) saw(r *received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

// work does the work that the request asks for, unless its webhook-id is known.
func (l *ledger) work(r *received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(map[string]bool)
	}
	if !l.done[r.id()] {
		l.done[r.id()] = true
		l.effects = append(l.effects, r.eventID())
	}
}

// seen returns the requests for an event, or all for "", in the order of arrival.
func (l *ledger) seen(eventID string) []*received {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ofEvent(l.requests, eventID)
}

// did returns the id of an event once for each of its effects, sorted.
func (l *ledger) did() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.effects))
}

// oneKey checks that all requests of an event have the same key and the same body.
func oneKey(t testing.TB, eventID string, requests []*received) {
	t.Helper()
	if len(requests) == 0 {
		t.Errorf("%s: no request arrived", eventID)
	}
	for _, r := range requests {
		if r.id() == "" || r.id() != requests[0].id() || r.header.Get("Idempotency-Key") != r.id() {
			t.Errorf("%s: attempt %s has webhook-id %q and Idempotency-Key %q, and the first one had %q", eventID,
				r.header.Get("Hookonce-Attempt"), r.id(), r.header.Get("Idempotency-Key"), requests[0].id())
		}
		if r.body != requests[0].body {
			t.Errorf("%s: attempt %s has another body", eventID, r.header.Get("Hookonce-Attempt"))
		}
	}
}

// fault answers one request, badly. It returns whether to keep the connection for another request.
type fault func(h *hostile, conn net.Conn) (keep bool)

// hostile is a destination that does its work and misbehaves in its answers until it is healed.
type hostile struct {
	ledger
	answer fault                    // until healed; nil answers well
	choose func(r *received) fault  // instead of answer, whether healed or not
	greet  func(conn net.Conn) bool // until healed: called before a request is read; false closes the connection
	secure *tls.Config              // nil without https

	address string
	healed  chan struct{}
	heal    func()
	closing chan struct{}
	listen  func() // begins to listen
}

// start starts the destination. It takes its port at once; a deaf one refuses connections until it
// is healed.
func (h *hostile) start(t testing.TB, deaf bool) {
	t.Helper()
	h.healed, h.closing = make(chan struct{}), make(chan struct{})
	socket, address := bind(t)
	h.address = address
	h.listen = sync.OnceFunc(func() {
		l, err := socket.listen()
		if err != nil {
			t.Errorf("listening on %s: %v", address, err)
			return
		}
		t.Cleanup(func() { _ = l.Close() })
		go h.serve(l)
	})
	h.heal = sync.OnceFunc(func() {
		close(h.healed)
		h.listen()
	})
	t.Cleanup(func() { close(h.closing) })
	if !deaf {
		h.listen()
	}
}

func (h *hostile) url() string {
	scheme := "http://"
	if h.secure != nil {
		scheme = "https://"
	}
	// Tests search logs and answers for this credential.
	return scheme + h.address + "/" + urlCredential + "?token=" + urlCredential
}

func (h *hostile) isHealed() bool {
	select {
	case <-h.healed:
		return true
	default:
		return false
	}
}

func (h *hostile) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			h.talk(conn)
		}()
	}
}

func (h *hostile) talk(conn net.Conn) {
	if h.greet != nil && !h.isHealed() && !h.greet(conn) {
		return
	}
	if h.secure != nil {
		conn = tls.Server(conn, h.secure)
	}
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		got := &received{method: req.Method, path: req.URL.Path, header: req.Header, body: string(body), at: time.Now()}
		h.saw(got)
		if !h.respond(conn, got) {
			return
		}
	}
}

func (h *hostile) respond(conn net.Conn, r *received) (keep bool) {
	if h.choose != nil {
		return h.choose(r)(h, conn)
	}
	h.work(r)
	h.mu.Lock()
	answer := h.answer
	h.mu.Unlock()
	if answer != nil && !h.isHealed() {
		return answer(h, conn)
	}
	return taken(h, conn)
}

// behave makes the destination answer with f from now on, until it is healed.
func (h *hostile) behave(f fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = f
}

// socket is a port that is held without listening on it.
type socket int

// bind takes a free port of the loopback interface.
func bind(t testing.TB) (s socket, address string) {
	t.Helper()
	syscall.ForkLock.RLock() // keeps a gateway that starts now from inheriting it
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return socket(fd), fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

func (s socket) listen() (net.Listener, error) {
	if err := syscall.Listen(int(s), syscall.SOMAXCONN); err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(s), "listener")
	defer file.Close() // the listener has a copy
	return net.FileListener(file)
}
