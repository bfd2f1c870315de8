// The providers that sign by Standard Webhooks, with their own headers or with those of Svix.
const standard = async (secret) => new (await import("standardwebhooks")).Webhook(secret);
// raw is for providers whose secret is the key itself, not its base64.
const raw = async (secret) => new (await import("standardwebhooks")).Webhook(Buffer.from(secret).toString("base64"));
const svix = async (secret) => new (await import("svix")).Webhook(secret);

async function verifyBy(library, request, key) {
  (await library(key.secret)).verify(request.body, request.headers);
  return true;
}

// signBy returns a signer that writes the headers of a prefix. The id is that of the request, or a new one.
const signBy = (library, prefix) => async (request, key) => {
  const id = request.headers["webhook-id"] ?? request.headers["svix-id"] ?? request.id;
  const signature = (await library(key.secret)).sign(id, new Date(request.now), request.body);
  const headers = { "webhook-id": null, "svix-id": null };
  headers[`${prefix}id`] = id;
  headers[`${prefix}timestamp`] = Math.floor(request.now / 1000);
  headers[`${prefix}signature`] = signature;
  return { headers };
};

const subject = (provider, sdk, library, prefix, more) => ({
  provider,
  sdk,
  signed: [`${prefix}id`],
  verify: (request, key) => verifyBy(library, request, key),
  sign: signBy(library, prefix),
  ...more,
});

export default [
  subject("openai", "openai", standard, "webhook-", {
    unchecked: { "value non-ASCII in header webhook-id": "its class for headers refuses such characters" },
    async verify(request, key) {
      const { default: OpenAI } = await import("openai");
      await new OpenAI({ apiKey: "key" }).webhooks.verifySignature(request.body, request.headers, key.secret);
      return true;
    },
  }),
  subject("resend", "resend", svix, "svix-", {
    async verify(request, key) {
      const { Resend } = await import("resend");
      const { "svix-id": id, "svix-timestamp": timestamp, "svix-signature": signature } = request.headers;
      new Resend("re_key").webhooks.verify({ payload: request.body, headers: { id, timestamp, signature }, webhookSecret: key.secret });
      return true;
    },
  }),
  subject("gemini", "standardwebhooks", standard, "webhook-"),
  subject("render", "standardwebhooks", standard, "webhook-"),
  subject("shipbob", "standardwebhooks", standard, "webhook-"),
  subject("supabase", "standardwebhooks", standard, "webhook-"),
  subject("supabase", "standardwebhooks", (secret) => standard(secret.replace("v1,whsec_", "")), "webhook-", {
    variant: "shown secret", // as Supabase shows it, and strips it in its documentation
    key: { secret: "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
  }),
  subject("nash", "svix", svix, "svix-"),
  subject("standard-webhooks", "standardwebhooks", standard, "webhook-"),
  subject("svix", "svix", svix, "svix-"),
  subject("svix", "svix", svix, "webhook-", { scheme: "unbranded" }),
  subject("beehiiv", "svix", svix, "svix-"),
  subject("brex", "standardwebhooks", standard, "webhook-"),
  subject("guesty", "svix", svix, "svix-"),
  subject("pleo", "svix", svix, "svix-"),
  subject("safebase", "svix", svix, "svix-"),
  subject("clerk", "@clerk/backend", svix, "svix-", {
    unchecked: { "value non-ASCII in header svix-id": "its class for headers refuses such characters" },
    async verify(request, key) {
      const { verifyWebhook } = await import("@clerk/backend/webhooks");
      const { url, method, headers, body } = request;
      await verifyWebhook(new Request(url, { method, headers, body }), { signingSecret: key.secret });
      return true;
    },
  }),
  subject("anthropic", "@anthropic-ai/sdk", standard, "webhook-", {
    async verify(request, key) {
      const { default: Anthropic } = await import("@anthropic-ai/sdk");
      new Anthropic({ apiKey: "key" }).beta.webhooks.unwrap(request.body, { headers: request.headers, key: key.secret });
      return true;
    },
  }),
  subject("lithic", "lithic", standard, "webhook-", {
    async verify(request, key) {
      const { default: Lithic } = await import("lithic");
      new Lithic({ apiKey: "key" }).webhooks.verifySignature(request.body, request.headers, key.secret);
      return true;
    },
  }),
  subject("replicate", "replicate", standard, "webhook-", {
    unchecked: { age: "the package has no clock" },
    async verify(request, key) {
      const { validateWebhook } = (await import("replicate")).default;
      return await validateWebhook({ headers: request.headers, body: request.body }, key.secret);
    },
    // From the tests of the SDK.
    vectors: [
      {
        name: "sdk-test",
        key: { secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
        request: {
          headers: {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
          },
          body: '{"test": 2432232314}',
          now: 1614265330000,
        },
      },
    ],
  }),
  subject("bigcommerce", "standardwebhooks", raw, "webhook-"),
  subject("etsy", "standardwebhooks", standard, "webhook-"),
  subject("gitlab", "standardwebhooks", standard, "webhook-"),
  subject("incident-io", "standardwebhooks", standard, "webhook-"),
  subject("polar", "standardwebhooks", raw, "webhook-"), // as Polar's SDK does it, which is too large
  subject("sardine", "svix", svix, "svix-"),
  subject("stytch", "svix", svix, "svix-"),
  subject("vanta", "svix", svix, "svix-"),
];
