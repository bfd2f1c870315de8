package send

import (
	"net/http"
	"testing"
)

func TestAnswersThatQuoteTheURL(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("Cannot POST " + r.URL.Path + "; no " + r.URL.RequestURI() +
			"; hooks: unknown token " + r.URL.Query().Get("token") + " of T0PS3CR3TPATH"))
	})
	got := newSender(t).Send(t.Context(), to(url+"/hooks/T0PS3CR3TPATH/x?token=s3cr3tt0ken"), message())
	const want = "Cannot POST <secret>; no <secret>; hooks: unknown token <secret> of <secret>"
	if got.Detail != want {
		t.Errorf("detail %q, want %q", got.Detail, want)
	}
}
