package providers

import (
	"net/http"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
)

func init() {
	add(&Subject{
		Provider: "slack",
		SDK:      "github.com/slack-go/slack",
		Verify: func(r *Request, key *Key) error {
			verifier, err := slack.NewSecretsVerifier(r.header(), key.Secret)
			if err != nil {
				return err
			}
			if _, err := verifier.Write([]byte(r.Body)); err != nil {
				return err
			}
			return verifier.Ensure()
		},
		Read: func(r *Request, _ *Key) error {
			_, err := slackevents.ParseEvent([]byte(r.Body), slackevents.OptionNoVerifyToken())
			return err
		},
	})
}

// header returns the headers with canonical names.
func (r *Request) header() http.Header {
	h := http.Header{}
	for name, value := range r.Header {
		h.Set(name, value)
	}
	return h
}
