package examplestest

import (
	"bytes"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// Messages returns all messages to a destination.
func Messages(t testing.TB, store driver.Store, destination string) (all []driver.ListedMessage) {
	t.Helper()
	filter := driver.MessageFilter{Destination: destination, Limit: driver.MaxLimit}
	for more := true; more; more = !filter.After.IsZero() {
		page, err := store.Messages(t.Context(), &filter)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Messages...)
		filter.After = page.Next
	}
	return all
}

// CheckMails checks that count mails were enqueued for the destination "mail", each for another
// event, and that each was sent: its file is in the folder, named by its id.
func CheckMails(t testing.TB, store driver.Store, folder string, count int) {
	t.Helper()
	var want []string
	events := make(map[string]bool)
	for _, m := range Messages(t, store, "mail") {
		want = append(want, filepath.Join(folder, m.ID+".eml"))
		if m.State != driver.StateSent || events[m.EventID] {
			t.Errorf("mail %s of event %s is %s or not the only one of the event: %s", m.ID, m.EventID, m.State, m.LastError)
		}
		events[m.EventID] = true
	}
	if len(want) != count {
		t.Errorf("%d mails were enqueued, want %d", len(want), count)
	}
	got, err := filepath.Glob(filepath.Join(folder, "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mails (-want +got):\n%s", diff)
	}
	receivers := make(map[string]bool)
	for _, name := range got {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to := receiver(t, text)
		if receivers[to] {
			t.Errorf("%s got more than one mail", to)
		}
		receivers[to] = true
	}
}

// receiver returns the recipient's address of a mail.
func receiver(t testing.TB, text []byte) string {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	to, err := m.Header.AddressList("To")
	if err != nil || len(to) != 1 {
		t.Fatalf("%v:\n%s", err, text)
	}
	return to[0].Address
}
