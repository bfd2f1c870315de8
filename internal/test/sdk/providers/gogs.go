package providers

import (
	"strings"

	"github.com/go-playground/webhooks/v6/gogs"
)

// gogsSignatures holds the signatures of the recorded payloads, of go-playground's gogs_test.go.
var gogsSignatures = map[string]string{
	"create-event":        "d3c99a5711de365c4ff897be0692d9016de2cee6e3e1d6b3fb49154f9efb354d",
	"delete-event":        "6208970efc3c5283df65f726d69ae8331491d7857f812dfaeaedf11a68d8da79",
	"fork-event":          "bd5fda972bd27745d9e108c3d92a926a47baf8b715a422f73ff9acdfa6a86402",
	"push-event":          "83d4163fb936904aeb9ffd6ce22cf86e4b36273b2e1c63a57f5a6ddc371ce3ba",
	"issues-event":        "bb61f632278cc601f37bc0a611e2a06bba3b53453f3e58092dc20ffa0cec6916",
	"issue-comment-event": "1d45142f03ed44a06d6630e57aa8c8c0ad7ed90a57cc0ee9fec8fb5434efd92e",
	"pull-request-event":  "69105ac4cada9f0b099be34722b26d3854be20988c26bd9e135fec74a830d00a",
	"release-event":       "93bfcfb879642dbc28136266b1f7d56d053fa08332aa1f4d884a66ced2b5f10a",
}

func init() {
	add(&Subject{
		Provider: "gogs",
		SDK:      playground,
		Type:     "push",
		Verify: func(r *Request, key *Key) error {
			hook, err := gogs.New(gogs.Options.Secret(key.Secret))
			if err != nil {
				return err
			}
			_, err = hook.Parse(r.http(), gogs.CreateEvent, gogs.DeleteEvent, gogs.ForkEvent, gogs.PushEvent,
				gogs.IssuesEvent, gogs.IssueCommentEvent, gogs.PullRequestEvent, gogs.ReleaseEvent)
			return err
		},
		Vectors: func() ([]Saved, error) {
			// The tests give all of them one delivery id. It is not signed, and each needs its own.
			vectors, err := testdata("gogs", func(name string) map[string]string {
				event := strings.ReplaceAll(strings.TrimSuffix(name, "-event"), "-", "_")
				return map[string]string{
					"x-gogs-event": event, "x-gogs-delivery": "playground-" + name, "x-gogs-signature": gogsSignatures[name],
				}
			})
			for i := range vectors {
				vectors[i].Key = &Key{Secret: "sampleToken!"}
			}
			return vectors, err
		},
	})
}
