package problem

import (
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProblem(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	Write(w, http.StatusNotFound, ContentType, JSON(New(http.StatusNotFound, "No event <a&b>.", "00ff")))
	const body = `{"type":"about:blank","title":"Not Found","status":404,"detail":"No event <a&b>.","instance":"urn:hookonce:error:00ff"}` + "\n"
	if diff := cmp.Diff(body, w.Body.String()); diff != "" || w.Code != http.StatusNotFound {
		t.Errorf("status %d (-want +got):\n%s", w.Code, diff)
	}
	want := http.Header{
		"Content-Type": {"application/problem+json"}, "Content-Length": {"120"}, "X-Content-Type-Options": {"nosniff"},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

func TestNoContentHasNoLength(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	Write(w, http.StatusNoContent, "text/plain", nil)
	if got, there := w.Header()["Content-Length"]; there || w.Code != http.StatusNoContent {
		t.Errorf("status %d with Content-Length %q", w.Code, got)
	}
}

func TestNewErrorID(t *testing.T) {
	t.Parallel()
	one, other := NewErrorID(), NewErrorID()
	if one == other || !regexp.MustCompile("^[0-9a-f]{16}$").MatchString(one) {
		t.Errorf("ids %q and %q", one, other)
	}
}

func TestJSONPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a number that JSON does not have was encoded")
		}
	}()
	JSON(math.NaN())
}
