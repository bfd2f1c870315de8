package hookadmin_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

func TestRefusedBodies(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	tests := []struct{ body, detail string }{
		{"x", "at byte 1: invalid character 'x'"},
		{"{", "at byte 1: unexpected end"},
		{`{"as_new":true`, "at byte 14: unexpected end"},
		{`{"as_new":tru}`, "at byte 14"},
		{`{'as_new':true}`, "at byte 2"},
		{`{"as_new":true,}`, "at byte 16"},
		{`{"as_new" true}`, "at byte 11"},
		{"null", "not a JSON object"},
		{"[]", "not a JSON object"},
		{`[{"as_new":true}]`, "not a JSON object"},
		{`"as_new"`, "not a JSON object"},
		{"true", "not a JSON object"},
		{`{} {}`, "at byte 4: invalid character '{' after top-level value"},
		{`{"as_new":true}}`, "at byte 16"},
		{"{}\x00", "at byte 3"},
		{" ", "unexpected end"},
		{`{"as_new":true,"as_new":false}`, `at byte 23: the key "as_new" appears twice`},
		{`{"as_new":true,"as\u005fnew":false}`, `the key "as_new" appears twice`},
		{`{"AS_NEW":true}`, `unknown key "AS_NEW"; known keys are as_new, same_id`},
		{`{"as-new":true}`, `unknown key "as-new"`},
		{`{"":true}`, `unknown key ""`},
		{`{"as_new":1}`, `"as_new": must be true or false`},
		{`{"as_new":"true"}`, `"as_new": must be true or false`},
		{`{"as_new":null}`, `"as_new": must be true or false`},
		{`{"as_new":{}}`, `"as_new": must be true or false`},
		{"{\"as\xffnew\":true}", "not valid UTF-8"},
		{strings.Repeat("[", 100_000), "exceeded max depth"},
	}
	for _, tt := range tests {
		wantDetail(t, g.post(t, "/api/v1/events/lab/e1/replay", tt.body), http.StatusBadRequest, tt.detail)
	}
	for body, detail := range map[string]string{
		`{"source":1}`:                                 `"source": must be a string`,
		`{"source":["lab"]}`:                           `"source": must be a string`,
		`{"source":"lab\u0000"}`:                       `"source": holds a control character`,
		`{"source":"` + strings.Repeat("x", 64) + `"}`: `"source": longer than 63 bytes`,
		`{"source":"lab","ids":"e1"}`:                  `"ids": must be a list of strings`,
		`{"source":"lab","ids":{"e1":1}}`:              `"ids": must be a list of strings`,
		`{"source":"lab","ids":["e1",["e1"]]}`:         `"ids": must be a list of strings`,
		`{"source":"lab","ids":["e1",2]}`:              `"ids": must be a list of strings`,
		`{"source":"lab","ids":["\n"]}`:                `"ids": holds a control character`,
		`{"all":"true"}`:                               `"all": must be true or false`,
		`{"all":true,"cursor":"x"}`:                    `unknown key "cursor"`,
	} {
		wantDetail(t, g.post(t, replayDead, body), http.StatusBadRequest, detail)
	}
	g.wantState(t, "e1", "dead")
}

func TestAcceptedBodies(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for i, body := range []string{
		"", "{}", " {\r\n}\t", `{"as_new":true}`, `{ "same_id" : true , "as_new" : false }`, `{"as\u005fnew":true}`,
		"{" + strings.Repeat(" ", 1<<20-2) + "}",
	} {
		id := fmt.Sprint(i)
		g.enqueue(t, id)
		g.settle(t, driver.MessageDead)
		got := g.post(t, "/api/v1/events/lab/"+id+"/replay", body)
		if replayed := readJSON[hookadmin.Replayed](t, got); got.status != 200 || replayed.Messages != 1 {
			t.Errorf("%.40q: answer %d %s", body, got.status, got.body)
		}
	}
}

func TestBodiesThatAreTooLong(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	long := `{"source":"` + strings.Repeat("x", 1<<20) + `"}`
	wantProblem(t, g.post(t, replayDead, long), http.StatusRequestEntityTooLarge)
	undeclared := g.send(t, "POST", replayDead, long, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = -1
	})
	wantProblem(t, undeclared, http.StatusRequestEntityTooLarge)
}

func TestBodiesThatDoNotArrive(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	broken := g.send(t, "POST", replayDead, `{"all":true}`, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{}`), iotest.ErrReader(io.ErrUnexpectedEOF)))
	})
	wantDetail(t, broken, http.StatusBadRequest, "could not be read")

	server := httptest.NewUnstartedServer(g.handler)
	server.Config.ReadTimeout = time.Second
	server.Start()
	t.Cleanup(server.Close)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{", replayDead)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("answer %d", resp.StatusCode)
	}
}

// posts returns all POST paths, each with a body that it accepts.
func (g *gateway) posts(t *testing.T, id string) map[string]string {
	t.Helper()
	message := g.enqueue(t, id)[0]
	g.settle(t, driver.MessageDead)
	return map[string]string{
		"/api/v1/events/lab/" + id + "/replay":   "{}",
		"/api/v1/messages/" + message + "/retry": "{}",
		"/api/v1/dead-letters/replay":            `{"all":true}`,
		"/api/v1/dead-letters/discard":           `{"all":true}`,
	}
}

func TestRefusedContentTypes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for target, body := range g.posts(t, "e1") {
		for _, header := range []http.Header{
			{},
			{"Content-Type": {""}},
			{"Content-Type": {"text/plain"}},
			{"Content-Type": {"application/x-www-form-urlencoded"}},
			{"Content-Type": {"multipart/form-data; boundary=x"}},
			{"Content-Type": {"text/json"}},
			{"Content-Type": {"application/jsonp"}},
			{"Content-Type": {"application/problem+json"}},
			{"Content-Type": {"text/plain, application/json"}},
			{"Content-Type": {"application/json; charset=iso-8859-1"}},
			{"Content-Type": {"application/json; charset"}},
			{"Content-Type": {"application/json", "application/json"}},
			{"Content-Type": {"application/json", "text/plain"}},
			{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
		} {
			resp := g.send(t, "POST", target, body, func(r *http.Request) { r.Header = header })
			wantDetail(t, resp, http.StatusUnsupportedMediaType, "Content-Type: application/json")
		}
	}
	g.wantState(t, "e1", "dead")
	taken := g.post(t, "/api/v1/events/lab/e1/replay", "{}", "Content-Type: Application/JSON; charset=UTF-8")
	if taken.status != 200 {
		t.Errorf("answer %d %s", taken.status, taken.body)
	}
}

func TestPostsTakeNoParameters(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for target, body := range g.posts(t, "e1") {
		wantDetail(t, g.post(t, target+"?as_new=true", body), http.StatusBadRequest, "no parameters")
	}
	g.wantState(t, "e1", "dead")
}

func TestConnectionOfAChunkedRequestIsClosed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for name, chunked := range map[string]bool{"chunked": true, "with a length": false} {
		resp := g.do(t, http.MethodGet, "/api/v1/events", func(r *http.Request) {
			if chunked {
				r.TransferEncoding = []string{"chunked"}
			}
		})
		if got := resp.header.Get("Connection") == "close"; resp.status != http.StatusOK || got != chunked {
			t.Errorf("%s: status %d, closed %t; want 200, %t", name, resp.status, got, chunked)
		}
	}
}
