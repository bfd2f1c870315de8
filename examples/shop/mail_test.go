package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooktest"
)

// mailServer speaks the SMTP (RFC 5321) that one mail needs, with one answer for each command.
type mailServer struct {
	address  string
	listener net.Listener
	done     chan struct{}
	lines    []string // the commands it got; read after done is closed
}

// newMailServer starts a mail server for one mail, which answers rcpt to RCPT.
func newMailServer(t *testing.T, rcpt string) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{listener.Addr().String(), listener, make(chan struct{}), nil}
	go func() {
		defer close(s.done)
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			s.serve(conn, map[string]string{"RCPT": rcpt, "DATA": "354 go on", "QUIT": "221 bye"})
		}
	}()
	return s
}

func (s *mailServer) serve(conn net.Conn, answers map[string]string) {
	fmt.Fprint(conn, "220 ready\r\n")
	inMail := false
	for scanner := bufio.NewScanner(conn); scanner.Scan(); {
		line := scanner.Text()
		s.lines = append(s.lines, line)
		if inMail && line != "." {
			continue
		}
		verb, _, _ := strings.Cut(line, " ")
		inMail = verb == "DATA"
		fmt.Fprint(conn, cmp.Or(answers[verb], "250 fine")+"\r\n")
	}
}

// told waits until the client has left and returns the client's commands; nothing if no client
// came.
func (s *mailServer) told(t *testing.T) string {
	t.Helper()
	if err := s.listener.Close(); err != nil {
		t.Error(err)
	}
	<-s.done
	return strings.Join(s.lines, "\n")
}

func TestSMTPMailer(t *testing.T) {
	t.Parallel()
	mail := &hookonce.Outgoing{
		ID: "msg_1", Header: http.Header{"Mail-To": {"ada@example.com"}, "Content-Type": {"text/plain"}}, Body: []byte("Thank you.\r\n"),
	}
	tests := map[string]struct {
		rcpt      string
		permanent bool
		want      string // must be among the client's commands
	}{
		"accepted":            {"250 fine", false, "Message-ID: <msg_1@example.com>"},
		"refused":             {"550 no such user", true, "RCPT TO:<ada@example.com>"},
		"temporarily refused": {"450 try again", false, "RCPT TO:<ada@example.com>"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			server := newMailServer(t, tt.rcpt)
			err := smtpMailer(server.address).Send(ctx, mail)
			if (err == nil) != (name == "accepted") || permanent(t, err) != tt.permanent {
				t.Errorf("got %v, permanent %v; want permanent %v", err, permanent(t, err), tt.permanent)
			}
			if got := server.told(t); !strings.Contains(got, tt.want) {
				t.Errorf("the server got %q, want it to contain %q", got, tt.want)
			}
		})
	}
}

// permanent reports whether err makes an event dead at once.
func permanent(t *testing.T, err error) bool {
	t.Helper()
	mux := &hookpgx.Mux{}
	hookonce.Handle(mux, "s", "*", func(context.Context, pgx.Tx, *hookonce.Event) error { return err })
	return hooktest.Work(t.Context(), t, pgx.Tx(nil), mux, hooktest.NewEvent("s", "1", "", "")).Permanent
}

// TestReceiptAddress checks that an impossible address makes the receipt a dead letter and reaches
// no mail server.
func TestReceiptAddress(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"", "ada", "ada@example.com\r\nBcc: all@example.com", "a@example.com, b@example.com"} {
		m := &hookonce.Outgoing{ID: "msg_1", Header: http.Header{"Mail-To": {to}}}
		if _, _, err := text(m); !permanent(t, err) {
			t.Errorf("%q: got %v, want a permanent error", to, err)
		}
	}
}
