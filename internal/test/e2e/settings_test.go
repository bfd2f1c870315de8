package e2e

// standardSettings are the settings of most tests: every provider, one route that sends all events
// to the sink, immediate retries, and short leases, so that those of a killed gateway soon run out.
const standardSettings = `
database: ${DATABASE_URL}
unverified_rate: 100000/s # the tests forge a lot, from one address
sources:
  github:
    provider: github
    secrets: ["${GITHUB_WEBHOOK_SECRET}"]
  stripe:
    provider: stripe
    secrets: ["${STRIPE_WEBHOOK_SECRET}"]
  standard:
    provider: standard-webhooks
    secrets: ["${STANDARD_SECRET}"]
  lab:` + labKeys + `  bare:
    provider: none
    event: {id: "body:id"}
destinations:
  app:
    url: ${SINK}/hooks
    secret: ${DESTINATION_SECRET}
    timeout: 10s
    retry: {attempts: 20, first: 50ms, max: 100ms}
routes:
  - name: all
    to: app
`

// labKeys configure a source that signs as labDelivery does.
const labKeys = `
    provider: hmac
    secrets: ["${LAB_SECRET}"]
    signature: {header: X-Lab-Signature, algorithm: sha256, encoding: hex, content: "{timestamp}.{body}"}
    timestamp: {at: "header:X-Lab-Timestamp", tolerance: 5m}
    event: {id: "body:id", type: "body:type"}
`
