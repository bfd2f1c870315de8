const sdk = async () => (await import("@atlassian/atlassian-jwt")).default;

// connect judges an app whose baseUrl has a path, which the setting url of the source lacks.
const connect = (basePath, more) => {
  const qshOf = (jwt, request) => {
    const path = basePath + new URL(request.url).pathname + (request.query ? `?${request.query}` : "");
    const received = jwt.fromMethodAndUrl(request.method, `https://hooks.example.com${path}`);
    return jwt.createQueryStringHash(received, false, `https://hooks.example.com${basePath}`);
  };
  return {
    provider: "jira",
    scheme: "connect-jwt",
    sdk: "@atlassian/atlassian-jwt",
    params: { client_key: "unique-client-identifier" },
    covered: [],
    async verify(request, key) {
      const jwt = await sdk();
      const token = request.headers.authorization.replace(/^JWT /, "");
      const claims = jwt.decodeSymmetric(token, key.secret, jwt.SymmetricAlgorithm.HS256);
      if (claims.exp < request.now / 1000) throw new Error("it has expired"); // the package leaves the claims to its caller
      return claims.iss === "unique-client-identifier" && claims.qsh === qshOf(jwt, request);
    },
    async sign(request, key) {
      const jwt = await sdk();
      const iat = Math.floor(request.now / 1000);
      const claims = { iss: "unique-client-identifier", iat, exp: iat + 180, qsh: qshOf(jwt, request) };
      return { headers: { authorization: `JWT ${jwt.encodeSymmetric(claims, key.secret)}` } };
    },
    ...more,
  };
};

export default [
  connect(""),
  connect("/app", { variant: "base-path" }),
  // The package sorts repeated parameters before it escapes them; Atlassian's documentation, afterwards. Here they agree.
  connect("", { variant: "query", query: "b=2&a=1%20x&a=0~*&c=%C3%BC" }),
  {
    provider: "jira",
    sdk: "x-hub-signature", // for senders of this header in general, such as Jira
    documented: true,
    async verify(request, key) {
      const { default: XHubSignature } = await import("x-hub-signature");
      return new XHubSignature("sha256", key.secret).verify(request.headers["x-hub-signature"], request.body);
    },
    async sign(request, key) {
      const { default: XHubSignature } = await import("x-hub-signature");
      return { headers: { "x-hub-signature": new XHubSignature("sha256", key.secret).sign(request.body) } };
    },
    // From Atlassian's documentation.
    vectors: [
      {
        name: "hello-world",
        key: { secret: "It's a Secret to Everybody" },
        request: {
          headers: {
            "x-hub-signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9",
            "x-atlassian-webhook-identifier": "hello-world",
          },
          body: "Hello World!",
        },
      },
    ],
  },
];
