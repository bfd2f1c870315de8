package providers

import (
	"errors"
	"strings"

	"github.com/go-playground/webhooks/v6/azuredevops"
)

func init() {
	add(&Subject{
		Provider: "azure-devops",
		SDK:      playground,
		Type:     "git.push",
		Event:    map[string]string{"id": "body:id"},
		Verify: func(r *Request, key *Key) error {
			user, password, ok := strings.Cut(key.Secret, ":")
			if !ok {
				return errors.New("the secret is not user:password")
			}
			hook, err := azuredevops.New(azuredevops.Options.BasicAuth(user, password))
			if err != nil {
				return err
			}
			_, err = hook.Parse(r.http(), azuredevops.GitPushEventType)
			return err
		},
		Recorded: func() ([]Saved, error) {
			return testdata("azuredevops", func(string) map[string]string { return map[string]string{} })
		},
	})
}
