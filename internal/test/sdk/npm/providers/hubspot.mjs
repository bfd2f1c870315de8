const sdk = async () => (await import("@hubspot/api-client/lib/src/utils/signature.js")).default.Signature;
const full = (request) => request.url + (request.query ? `?${request.query}` : "");

const subject = (version, { write, ...more }) => ({
  provider: "hubspot",
  scheme: version,
  sdk: "@hubspot/api-client",
  async verify(request, key) {
    const { headers } = request;
    return (await sdk()).isValid({
      signatureVersion: version,
      signature: headers["x-hubspot-signature-v3"] ?? headers["x-hubspot-signature"],
      clientSecret: key.secret,
      method: request.method,
      url: full(request),
      requestBody: request.body,
      timestamp: headers["x-hubspot-request-timestamp"] && Number(headers["x-hubspot-request-timestamp"]),
    });
  },
  async sign(request, key) {
    const options = { clientSecret: key.secret, url: full(request), requestBody: request.body, timestamp: request.now };
    return { headers: write((await sdk()).getSignature(request.method, version, options), request) };
  },
  ...more,
});
const old = (version) => (signature) => ({ "x-hubspot-signature": signature, "x-hubspot-signature-version": version });

export default [
  subject("v3", {
    write: (signature, { now }) => ({ "x-hubspot-signature-v3": signature, "x-hubspot-request-timestamp": now }),
  }),
  subject("v3", {
    variant: "query",
    query: "a=1&b=x",
    write: (signature, { now }) => ({ "x-hubspot-signature-v3": signature, "x-hubspot-request-timestamp": now }),
  }),
  subject("v2", { write: old("v2") }),
  subject("v1", { write: old("v1") }),
];
