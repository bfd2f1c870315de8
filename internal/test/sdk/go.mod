module github.com/hookonce/hookonce/internal/test/sdk

go 1.26.0

require (
	github.com/go-playground/webhooks/v6 v6.4.0
	github.com/hookonce/hookonce v0.0.0
	github.com/slack-go/slack v0.35.0
	github.com/stripe/stripe-go/v82 v82.5.1
)

require github.com/gorilla/websocket v1.5.3 // indirect

// npm packages may hold Go files.
ignore ./npm/node_modules

replace github.com/hookonce/hookonce => ../../..
