module github.com/hookonce/hookonce/internal/test/sdk

go 1.26.0

require (
	code.gitea.io/sdk/gitea v0.25.1
	github.com/PagerDuty/go-pagerduty v1.8.0
	github.com/buildkite/go-buildkite/v4 v4.23.0
	github.com/go-playground/webhooks/v6 v6.4.0
	github.com/google/go-github/v75 v75.0.0
	github.com/hookonce/hookonce v0.0.0
	github.com/mailgun/mailgun-go/v4 v4.23.0
	github.com/nicklaw5/helix/v2 v2.30.0
	github.com/slack-go/slack v0.35.0
	github.com/stripe/stripe-go/v82 v82.5.1
)

require (
	github.com/42wim/httpsig v1.2.4 // indirect
	github.com/cenkalti/backoff v1.1.1-0.20171020064038-309aa717adbf // indirect
	github.com/davidmz/go-pageant v1.0.2 // indirect
	github.com/go-chi/chi/v5 v5.2.1 // indirect
	github.com/go-fed/httpsig v1.1.0 // indirect
	github.com/gogits/go-gogs-client v0.0.0-20200905025246-8bb8a50cb355 // indirect
	github.com/golang-jwt/jwt/v4 v4.0.0 // indirect
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/hashicorp/go-version v1.9.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/mailgun/errors v0.4.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180228061459-e0a39a4cb421 // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/hookonce/hookonce => ../../..
