// The providers that sign by Standard Webhooks, with their own headers or with those of Svix.
const standard = async (secret) => new (await import("standardwebhooks")).Webhook(secret);
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
  subject("standard-webhooks", "standardwebhooks", standard, "webhook-"),
  subject("svix", "svix", svix, "svix-"),
  subject("svix", "svix", svix, "webhook-", { scheme: "unbranded" }),
  subject("clerk", "svix", svix, "svix-"),
  subject("beehiiv", "svix", svix, "svix-"),
  subject("brex", "standardwebhooks", standard, "webhook-"),
  subject("guesty", "svix", svix, "svix-"),
  subject("pleo", "svix", svix, "svix-"),
  subject("safebase", "svix", svix, "svix-"),
];
