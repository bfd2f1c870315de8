const pem = (text) => `-----BEGIN PUBLIC KEY-----\n${text}\n-----END PUBLIC KEY-----\n`;

const events = {
  provider: "sendgrid",
  sdk: "@sendgrid/eventwebhook",
  unchecked: { age: "the package has no clock" },
  async verify(request, key) {
    const { EventWebhook } = (await import("@sendgrid/eventwebhook")).default;
    const webhook = new EventWebhook();
    const signature = request.headers["x-twilio-email-event-webhook-signature"];
    const timestamp = request.headers["x-twilio-email-event-webhook-timestamp"];
    return webhook.verifySignature(webhook.convertPublicKeyToECDSA(key.public), request.body, signature, timestamp);
  },
  // From the tests of the SDK.
  vectors: [
    {
      name: "sdk-test",
      key: {
        public: pem(
          "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
        ),
      },
      request: {
        headers: {
          "x-twilio-email-event-webhook-timestamp": "1600112502",
          "x-twilio-email-event-webhook-signature":
            "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
        },
        body:
          '[{"email":"hello@world.com","event":"dropped","reason":"Bounced Address","sg_event_id":' +
          '"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA","sg_message_id":' +
          '"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0","smtp-id":' +
          '"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>","timestamp":1600112492}]\r\n',
        now: 1600112502000,
      },
    },
  ],
};

// Inbound Parse is signed as the events are.
export default [events, { ...events, provider: "sendgrid-parse", vectors: undefined }];
