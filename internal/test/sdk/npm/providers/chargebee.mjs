const validator = async () => (await import("chargebee")).basicAuthValidator;

export default {
  provider: "chargebee",
  sdk: "chargebee",
  async verify(request, key) {
    const check = (await validator())((name, password) => `${name}:${password}` === key.secret);
    await check(request.headers);
    return true;
  },
};
