package providers

import bitbucketserver "github.com/go-playground/webhooks/v6/bitbucket-server"

func init() {
	add(&Subject{
		Provider: "bitbucket-server",
		SDK:      playground,
		Type:     "repo:refs_changed",
		Verify: func(r *Request, key *Key) error {
			hook, err := bitbucketserver.New(bitbucketserver.Options.Secret(key.Secret))
			if err != nil {
				return err
			}
			_, err = hook.Parse(r.http(), bitbucketserver.Event(r.Header["x-event-key"]))
			return err
		},
		Vectors: func() ([]Saved, error) { return playgroundVectors("bitbucket-server") },
	})
}
