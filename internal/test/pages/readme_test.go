package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/internal/test/program"
)

// inOwnTransaction is a program around the README's block of Go.
const inOwnTransaction = `package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/provider"
)

const markPaid = "INSERT INTO paid VALUES ($1)"

func serve(ctx context.Context, pool *pgxpool.Pool, secret string) error {
%s
	listener, err := net.Listen("tcp", os.Getenv("LISTEN"))
	if err != nil {
		return err
	}
	log.Print("http://", listener.Addr())
	go http.Serve(listener, nil)
	<-ctx.Done()
	in.Drain()
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(ctx, pool, os.Getenv("SECRET")); err != nil {
		log.Fatal(err)
	}
}
`

// A reader who copies the README's block of Go has a program that marks the invoice as paid, once.
func TestReadmeGoBlockRuns(t *testing.T) {
	t.Parallel()
	var block string
	for _, b := range blocksOf(read(t, "README.md")) {
		if b.language == "go" {
			block = b.text
		}
	}
	folder := t.TempDir()
	file, binary := filepath.Join(folder, "app.go"), filepath.Join(folder, "app")
	if err := os.WriteFile(file, []byte(strings.Replace(inOwnTransaction, "%s", block, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", binary, file)
	cmd.Dir = repository // for its modules
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	databaseURL, _, db := examplestest.Postgres(t)
	examplestest.Exec(t, db, "CREATE TABLE paid (invoice text)")
	p := examplestest.Start(t, []string{"DATABASE_URL=" + databaseURL, "SECRET=" + secret}, binary)
	send := exec.Command(program.Hookonce(t), "send", p.URL()+"/webhooks/stripe", "--provider", "stripe", "--secret", secret,
		"--sample", "invoice.paid", "--duplicate", "2")
	if out, err := send.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually.True(t, "an invoice is paid", func() bool {
		return examplestest.Counts(t, db, "SELECT 'paid', count(*) FROM paid")["paid"] > 0
	})
	got := examplestest.Counts(t, db, "SELECT left(invoice, 3), count(*) FROM paid GROUP BY 1")
	if len(got) != 1 || got["in_"] != 1 {
		t.Errorf("paid: %v, want one invoice", got)
	}
}

// The README shows a part of a report of docs/five-minute-test.md, where internal/test/receivers holds it.
func TestReadmeReport(t *testing.T) {
	t.Parallel()
	for _, b := range blocksOf(read(t, "README.md")) {
		if !strings.HasPrefix(b.first(), "✗") {
			continue
		}
		for _, check := range strings.SplitAfter(b.text, "\n ✗") {
			if part := strings.TrimSuffix(check, " ✗"); !strings.Contains(read(t, "docs/five-minute-test.md"), part) {
				t.Errorf("README.md:%d: docs/five-minute-test.md does not have\n%s", b.line, part)
			}
		}
		return
	}
	t.Error("README.md has no report of probe")
}
