package providers

import (
	"github.com/go-playground/webhooks/v6/gitlab"
)

func init() {
	add(&Subject{
		Provider: "gitlab",
		Scheme:   "secret-token",
		SDK:      playground,
		Type:     string(gitlab.PushEvents),
		Verify: func(r *Request, key *Key) error {
			hook, err := gitlab.New(gitlab.Options.Secret(key.Secret))
			if err != nil {
				return err
			}
			_, err = hook.Parse(r.http(), gitlab.Event(r.Header["x-gitlab-event"])) // into the type of the event
			return err
		},
		Recorded: func() ([]Saved, error) {
			return testdata("gitlab", func(name string) map[string]string {
				return map[string]string{"x-gitlab-event": "Push Hook", "webhook-id": "playground-" + name}
			})
		},
	})
}
