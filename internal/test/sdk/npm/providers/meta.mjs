const subject = (scheme, header) => {
  const sdk = async (key) => new (await import("x-hub-signature")).default(scheme, key.secret);
  return {
    provider: "meta",
    scheme,
    sdk: "x-hub-signature",
    async verify(request, key) {
      return (await sdk(key)).verify(request.headers[header], request.body);
    },
    async sign(request, key) {
      return { headers: { [header]: (await sdk(key)).sign(request.body) } };
    },
  };
};

export default [subject("sha256", "x-hub-signature-256"), subject("sha1", "x-hub-signature")];
