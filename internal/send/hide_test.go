package send

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// An answer that quotes the request shows none of our secrets, in any form.
func TestResponsesHideSecrets(t *testing.T) {
	t.Parallel()
	// The base64 of this key has a '+', a '/' and a '='.
	key := []byte("\xfb\xef\xbe\xff\xff\xfesixteen+bytes!")
	whsec := "whsec_" + base64.StdEncoding.EncodeToString(key)
	for name, secret := range map[string]string{"whsec": whsec, "raw": `a "secret" & <more>/of+it=`, "short": "abc"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var signature string
			echo := serve(t, func(w http.ResponseWriter, r *http.Request) {
				signature = r.Header.Get("Webhook-Signature")
				w.Header().Set("Content-Type", "text/plain; of="+strings.ReplaceAll(secret, `"`, ""))
				w.WriteHeader(http.StatusInternalServerError)
				_, mac, _ := strings.Cut(signature, ",")
				for _, text := range []string{mac, secret, strings.TrimPrefix(secret, "whsec_"), signature, r.URL.String(), string(key)} {
					quoted, _ := json.Marshal(text)
					fmt.Fprintln(w, text, string(quoted), strings.ReplaceAll(string(quoted), "/", `\/`), html.EscapeString(text),
						strings.ReplaceAll(text, "+", "&#43;"), url.QueryEscape(text), url.PathEscape(text))
				}
				fmt.Fprint(w, "end")
			})
			target := to(echo + "/hooks/T0PS3CR3TPATH?token=s3cr3tt0ken")
			target.Secret = secret
			got := newSender(t).Send(t.Context(), target, message())
			if got.Err == nil || !strings.HasSuffix(string(got.Response), "end") {
				t.Fatalf("got %+v", got)
			}
			_, mac, _ := strings.Cut(signature, ",")
			canaries := []string{secret, mac, "T0PS3CR3TPATH", "s3cr3tt0ken", url.QueryEscape(secret), strings.ReplaceAll(mac, "/", `\/`)}
			if name == "whsec" {
				canaries = append(canaries, string(key), strings.TrimPrefix(secret, "whsec_"))
			}
			for _, canary := range canaries {
				for _, text := range []string{string(got.Response), got.ResponseType, got.Detail} {
					if strings.Contains(text, canary) {
						t.Errorf("%q in %q", canary, text)
					}
				}
			}
		})
	}
}

// A secret that lies across the end of the kept part is not shown in part.
func TestResponsesDoNotCutSecrets(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("0123456789abcdef", 64)
	for _, before := range []int{0, MaxResponse - 8, 4*MaxResponse - 8, 4*MaxResponse - 1000, maxResponseBody - 8, maxResponseBody} {
		echo := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			// Secrets shrink, so the text after them moves to the front.
			for range before / len(secret) {
				_, _ = io.WriteString(w, secret)
			}
			_, _ = io.WriteString(w, strings.Repeat(" ", before%len(secret))+secret+secret)
		})
		target := to(echo)
		target.Secret = secret
		got := newSender(t).Send(t.Context(), target, message())
		rest := strings.NewReplacer("<secret>", "", " ", "").Replace(string(got.Response) + got.Detail)
		if rest = strings.TrimSuffix(rest, "<secre"); strings.ContainsAny(rest, "0123456789") || len(got.Response) > MaxResponse {
			t.Errorf("after %d bytes: %d bytes, and %.80q is left", before, len(got.Response), rest)
		}
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	binary := "\xff\x00\x1b[2J" + strings.Repeat("\x80", 8)
	for name, tt := range map[string]struct {
		status            int
		contentType, body string
		want              string
	}{
		"text":    {500, "text/html", "<b>no</b>\n", "<b>no</b>\n"},
		"binary":  {422, "application/octet-stream", binary, binary},
		"success": {200, "text/plain", "thanks", ""},
		"none":    {503, "text/plain", "", ""},
		"long":    {500, "text/plain", strings.Repeat("é", MaxResponse), strings.Repeat("é", MaxResponse/2)},
		"uneven":  {500, "text/plain", "x" + strings.Repeat("é", MaxResponse), "x" + strings.Repeat("é", MaxResponse/2-1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got := newSender(t).Send(t.Context(), to(url), message())
			if string(got.Response) != tt.want {
				t.Errorf("response %.80q (%d bytes), want %.80q (%d bytes)", got.Response, len(got.Response), tt.want, len(tt.want))
			}
			wantType := tt.contentType
			if tt.want == "" {
				wantType = ""
			}
			if got.ResponseType != wantType {
				t.Errorf("content type %q, want %q", got.ResponseType, wantType)
			}
		})
	}
}

// A hostile answer without an end costs no more than 64 KiB and the header, and a hostile content type
// is stored as text.
func TestHostileResponses(t *testing.T) {
	t.Parallel()
	taken := make(chan int, 1)
	target := serveRaw(t, func(conn net.Conn) {
		sent, _ := io.WriteString(conn, "HTTP/1.1 500 x\r\nContent-Type: \xff\xfe\x80"+strings.Repeat("t", 1000)+"\r\n\r\n")
		for {
			n, err := conn.Write(bytes.Repeat([]byte("x"), 1<<10))
			if sent += n; err != nil {
				taken <- sent
				return
			}
		}
	})
	got := newSender(t).Send(t.Context(), to(target), message())
	if len(got.Response) != MaxResponse || !utf8.ValidString(got.ResponseType) || len(got.ResponseType) != maxResponseType {
		t.Errorf("a response of %d bytes with the content type %q", len(got.Response), got.ResponseType)
	}
	<-taken // the connection was closed: nothing reads on
}
