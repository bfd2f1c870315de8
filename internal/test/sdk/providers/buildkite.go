package providers

import "github.com/buildkite/go-buildkite/v4"

func init() {
	verify := func(r *Request, key *Key) error {
		_, err := buildkite.ValidatePayload(r.http(), []byte(key.Secret))
		return err
	}
	add(
		&Subject{
			Provider: "buildkite", SDK: "github.com/buildkite/go-buildkite/v4", Verify: verify,
			Unchecked: map[string]string{"age": "the package has no clock", "several": "the package reads one signature"},
		},
		&Subject{Provider: "buildkite", Scheme: "token", SDK: "github.com/buildkite/go-buildkite/v4", Verify: verify},
	)
}
