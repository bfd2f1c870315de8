package sendnats_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// authority signs the tokens of an operator with one account.
type authority struct {
	t                         *testing.T
	operator, system, account nkeys.KeyPair
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	operator, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	system, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, operator, system, account}
}

func (a *authority) public(key nkeys.KeyPair) string {
	text, err := key.PublicKey()
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// token returns a JSON Web Token as NATS reads it.
func (a *authority) token(issuer, subject nkeys.KeyPair, expires time.Time, rights map[string]any) string {
	rights["version"] = 2
	claims := map[string]any{"iss": a.public(issuer), "sub": a.public(subject), "iat": time.Now().Unix(), "name": "test", "nats": rights}
	if !expires.IsZero() {
		claims["exp"] = expires.Unix()
	}
	body, err := json.Marshal(claims)
	if err != nil {
		a.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + encode(body)
	signature, err := issuer.Sign([]byte(signed))
	if err != nil {
		a.t.Fatal(err)
	}
	return signed + "." + encode(signature)
}

// config writes the configuration of a server that trusts a, and returns its path.
func (a *authority) config() string {
	account := func(key nkeys.KeyPair, stored int) string {
		return a.token(a.operator, key, time.Time{}, map[string]any{"type": "account", "limits": map[string]any{
			"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
			"mem_storage": stored, "disk_storage": stored, "streams": stored, "consumer": stored,
		}})
	}
	path := filepath.Join(a.t.TempDir(), "nats.conf")
	text := fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n%s: %s\n%s: %s\n}\n",
		a.token(a.operator, a.operator, time.Time{}, map[string]any{"type": "operator"}), a.public(a.system),
		a.public(a.system), account(a.system, 0), a.public(a.account), account(a.account, -1))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// writeCreds writes a file with credentials of a new user.
func (a *authority) writeCreds(path string, expires time.Time) {
	user, err := nkeys.CreateUser()
	if err != nil {
		a.t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		a.t.Fatal(err)
	}
	token := a.token(a.account, user, expires, map[string]any{"type": "user", "subs": -1, "data": -1, "payload": -1})
	text := "-----BEGIN NATS USER JWT-----\n" + token + "\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// TestExpiredCredentials has credentials expire while the Sender is connected. It tells that, and goes on with the
// renewed file.
func TestExpiredCredentials(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := startServer(t, "-c", a.config())
	creds := filepath.Join(t.TempDir(), "user.creds")
	a.writeCreds(creds, time.Now().Add(time.Hour))
	s.streamAs(t.Context(), -1, nats.UserCredentials(creds))
	a.writeCreds(creds, time.Now().Add(3*time.Second))
	sender := newSender(t, s.url("")+"?creds="+creds)
	if err := sender.Send(t.Context(), outgoing("1")); err != nil {
		t.Fatal(err)
	}
	for refused := false; !refused; {
		err := sender.Send(t.Context(), outgoing("2"))
		refused = err != nil && strings.Contains(err.Error(), "refused the credentials")
		if t.Context().Err() != nil {
			t.Fatalf("error %v", err)
		}
	}
	a.writeCreds(creds, time.Now().Add(time.Hour))
	for sender.Send(t.Context(), outgoing("3")) != nil {
		if t.Context().Err() != nil {
			t.Fatal("not sent with renewed credentials")
		}
	}
}
