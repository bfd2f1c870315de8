package providers

import (
	"errors"
	"strings"

	sdk "code.gitea.io/sdk/gitea"
	"github.com/go-playground/webhooks/v6/gitea"
)

func init() {
	add(
		&Subject{
			Provider: "gitea",
			SDK:      "code.gitea.io/sdk/gitea",
			Verify: func(r *Request, key *Key) error {
				ok, err := sdk.VerifyWebhookSignature(key.Secret, r.Header["x-gitea-signature"], []byte(r.Body))
				if !ok && err == nil {
					err = errors.New("it is not valid")
				}
				return err
			},
			Recorded: func() ([]Saved, error) {
				return testdata("gitea", func(name string) map[string]string {
					event := strings.ReplaceAll(strings.TrimSuffix(name, "-event"), "-", "_")
					return map[string]string{"x-gitea-event": event, "x-gitea-delivery": "playground-" + name}
				})
			},
		},
		&Subject{
			Provider: "gitea",
			SDK:      playground,
			Type:     "push",
			Verify: func(r *Request, key *Key) error {
				hook, err := gitea.New(gitea.Options.Secret(key.Secret))
				if err != nil {
					return err
				}
				_, err = hook.Parse(r.http(), gitea.Event(r.Header["x-gitea-event"]))
				return err
			},
			Vectors: func() ([]Saved, error) { return playgroundVectors("gitea") },
		},
	)
}
