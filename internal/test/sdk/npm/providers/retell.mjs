const retell = async () => (await import("retell-sdk")).default;

export default {
  provider: "retell",
  sdk: "retell-sdk",
  unchecked: { several: "the package reads one signature" },
  async verify(request, key) {
    return (await retell()).verify(request.body, key.secret, request.headers["x-retell-signature"]);
  },
  async sign(request, key) {
    return { headers: { "x-retell-signature": await (await retell()).sign(request.body, key.secret) } };
  },
};
