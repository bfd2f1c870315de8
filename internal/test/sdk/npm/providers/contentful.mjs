const sdk = () => import("@contentful/node-apps-toolkit");
const canonical = (request) => ({
  method: request.method,
  path: new URL(request.url).pathname + (request.query ? `?${request.query}` : ""),
  headers: request.headers,
  body: request.body,
});

const subject = {
  provider: "contentful",
  sdk: "@contentful/node-apps-toolkit",
  key: { secret: "4c0ad1d4b5e8ff9e3e1d8ec2b8a7c3d6f1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6" }, // it takes only 64 characters
  async verify(request, key) {
    const { verifyRequest } = await sdk();
    return verifyRequest(key.secret, canonical(request), 60);
  },
  async sign(request, key) {
    const { signRequest } = await sdk();
    return { headers: signRequest(key.secret, canonical(request), request.now) };
  },
};

export default [
  subject,
  { ...subject, variant: "query", query: "a=1&b=%C3%BC&c=x%20y" },
  { ...subject, variant: "escapes", url: "https://hooks.example.com/webhooks/content%20ful" },
];
