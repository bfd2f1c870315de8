package providers

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-playground/webhooks/v6/github"
	client "github.com/google/go-github/v75/github"
)

const playground = "github.com/go-playground/webhooks/v6"

func init() {
	add(&Subject{
		Provider: "github",
		SDK:      "github.com/google/go-github/v75",
		Verify: func(r *Request, key *Key) error {
			_, err := client.ValidatePayload(r.http(), []byte(key.Secret))
			return err
		},
		Read: func(r *Request, _ *Key) error {
			_, err := client.ParseWebHook(r.Header["x-github-event"], []byte(r.Body))
			return err
		},
	}, &Subject{
		Provider: "github",
		SDK:      playground,
		Type:     "push",
		Body:     `{"ref":"refs/heads/main","after":"a10867b14bb761a232cd80139fbd4c0d33264240"}`,
		Verify: func(r *Request, key *Key) error {
			hook, err := github.New(github.Options.Secret(key.Secret))
			if err != nil {
				return err
			}
			_, err = hook.Parse(r.http(), github.Event(r.Header["x-github-event"])) // into the type of the event
			return err
		},
		Recorded: func() ([]Saved, error) {
			return testdata("github", func(name string) map[string]string {
				return map[string]string{"x-github-event": strings.ReplaceAll(name, "-", "_"), "x-github-delivery": "playground-" + name}
			})
		},
	})
}

// http returns the request as a server receives it.
func (r *Request) http() *http.Request {
	target := r.URL
	if r.Query != "" {
		target += "?" + r.Query
	}
	req, err := http.NewRequest(r.Method, target, bytes.NewReader([]byte(r.Body)))
	if err != nil {
		panic(err) // the guard makes the URL
	}
	req.Header = r.header()
	return req
}

// testdata returns the payloads that go-playground/webhooks recorded of a provider. header returns
// the headers of the payload with a name.
func testdata(folder string, header func(name string) map[string]string) ([]Saved, error) {
	dir, err := playgroundDir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "testdata", folder, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, errors.New("go-playground/webhooks has no payloads of "+folder))
	}
	var list []Saved
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		list = append(list, Saved{Name: name, Request: Request{Header: header(name), Body: string(body)}})
	}
	return list, nil
}
