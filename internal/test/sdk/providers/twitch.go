package providers

import (
	"errors"

	"github.com/nicklaw5/helix/v2"
)

func init() {
	add(&Subject{
		Provider:  "twitch",
		SDK:       "github.com/nicklaw5/helix/v2",
		Signed:    []string{"twitch-eventsub-message-id"},
		Unchecked: map[string]string{"age": "the package has no clock"},
		Verify: func(r *Request, key *Key) error {
			if !helix.VerifyEventSubNotification(key.Secret, r.header(), r.Body) {
				return errors.New("it is not valid")
			}
			return nil
		},
	})
}
