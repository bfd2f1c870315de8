package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/internal/dial"
)

var form = Form{
	Schemes: map[string]string{"x": "1", "xs": "2"}, Example: "x://host/path", Query: []string{"file", "queue"}, Shown: []string{"queue"},
}

func TestParse(t *testing.T) {
	t.Parallel()
	u, err := form.Parse("xs://us%40er:p%2Fw,@[::1]:7,b,10.0.0.1:8/a%2Fb?queue=q+1&file=/canary&ca=/canary")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"[::1]:7", "b:2", "10.0.0.1:8"}; !reflect.DeepEqual(u.Hosts, want) {
		t.Errorf("hosts %q, want %q", u.Hosts, want)
	}
	if password, _ := u.User.Password(); u.User.Username() != "us@er" || password != "p/w," || u.Path != "a/b" || u.Get("queue") != "q 1" || u.Get("file") != "/canary" {
		t.Errorf("%q %q %q %q", u.User.Username(), password, u.Path, u.query)
	}
	if got, want := u.Address(), "xs://[::1]:7,b:2,10.0.0.1:8/a%2Fb?queue=q+1"; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	for raw, want := range map[string]string{
		"x://canary@a,":             "neither a name nor an address",
		"x://,a":                    "neither a name nor an address",
		"x://a:0,b":                 "from 1 to 65535",
		"x://a,b:70000":             "from 1 to 65535",
		"x://a,b:":                  "colon without a port",
		"x://a b":                   "",
		"x://a?file=%zzcanary":      "cannot be read",
		"x://a?file=":               "not empty",
		"x://a?canary=1":            "only file, queue, ca",
		"canary":                    "must begin with x:// or xs://",
		"y://canary":                "must begin with x:// or xs://",
		"x://a/p#canary":            "fragment",
		"x://canary:can\nary@a/p":   "percent-encode",
		"x://can/ary@a/p":           "percent-encode",
		"x://u:1/canary@a/p":        "percent-encode",
		"x://can?ary@a/p":           "percent-encode",
		"x://u:canary@1.2.3.4.5/p":  "neither a name nor an address",
		"x://u:can@ary@a/p?queue=1": "",
	} {
		_, err := form.Parse(raw)
		if raw == "x://u:can@ary@a/p?queue=1" { // as net/url has it: the last @ counts
			if err != nil {
				t.Errorf("%s: %v", raw, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want %q", raw, err, want)
		}
	}
}

func TestDialer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Dialer(false).Dial("tcp", l.Addr().String()); !errors.Is(err, dial.ErrAddress) || !strings.Contains(Explain(err).Error(), "AllowPrivate") {
		t.Errorf("a private address: %v", err)
	}
	if _, err := Dialer(true).Dial("tcp", "169.254.169.254:80"); !errors.Is(err, dial.ErrAddress) {
		t.Errorf("a metadata service: %v", err)
	}
	conn, err := Dialer(true).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// TestLink has many callers share one connection, and dial again once it failed, ended or was dropped.
func TestLink(t *testing.T) {
	t.Parallel()
	var dials, closed atomic.Int64
	var ended atomic.Bool
	fail := errors.New("refused")
	l := Link[int64]{
		Dial: func() (int64, error) {
			if n := dials.Add(1); n > 1 {
				return n, nil
			}
			return 0, fail
		},
		Ended: func(int64) bool { return ended.Swap(false) },
		Close: func(n int64) { closed.Store(n) },
	}
	if _, err := l.Get(t.Context()); !errors.Is(err, fail) {
		t.Errorf("error %v", err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if n, err := l.Get(t.Context()); n != 2 || err != nil {
				t.Errorf("connection %d, %v", n, err)
			}
		})
	}
	wg.Wait()
	ended.Store(true)
	if n, err := l.Get(t.Context()); n != 3 || err != nil {
		t.Errorf("connection %d, %v", n, err)
	}
	l.Drop()
	if n, err := l.Get(t.Context()); n != 4 || err != nil {
		t.Errorf("connection %d, %v", n, err)
	}
	for closed.Load() != 3 {
		if t.Context().Err() != nil {
			t.Fatal("the dropped connection was not closed")
		}
	}
	slow := Link[int64]{Dial: func() (int64, error) { <-t.Context().Done(); return 0, fail }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := slow.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestLinkWaitsForNoOther has one call wait whether the connection ended. Others drop the connection and dial.
func TestLinkWaitsForNoOther(t *testing.T) {
	t.Parallel()
	asked, until := make(chan struct{}), make(chan struct{})
	var dials atomic.Int64
	l := Link[int64]{
		Dial:  func() (int64, error) { return dials.Add(1), nil },
		Ended: func(int64) bool { close(asked); <-until; return true },
		Close: func(int64) {},
	}
	if _, err := l.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits := make(chan int64)
	go func() {
		n, _ := l.Get(t.Context())
		waits <- n
	}()
	<-asked
	l.Drop()
	if n, err := l.Get(t.Context()); n != 2 || err != nil {
		t.Errorf("connection %d, %v", n, err)
	}
	close(until)
	if n := <-waits; n != 2 {
		t.Errorf("connection %d, want that of the other call", n)
	}
}

// TestBoundedWrite writes to a peer that reads nothing. The write fails, and so does each one after it.
func TestBoundedWrite(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := BoundedDialer{Dialer(true)}.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	sent := bytes.Repeat([]byte("0123456789"), writePart/4)
	go conn.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("a write of several parts came differently: %v", err)
	}
	if n, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 64<<20 {
		t.Errorf("wrote %d bytes, error %v", n, err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after a failed write: %v", err)
	}
}
