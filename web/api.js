// Asking the gateway: the operator's token, time limits, and nothing else.

const TOKEN = "isthmus.token";
const LIMIT_MS = 15000;

/** The gateway wants an operator's token, or another one. */
export class Unauthorized extends Error {}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

/** Another answer than was asked for. */
export class BadAnswer extends Error {
  constructor(status) {
    super(`the gateway answered ${status}`);
    this.status = status;
  }
}

/** The JSON of a GET; throws Unauthorized, BadAnswer, or what fetch throws. */
export async function ask(path) {
  const headers = { Accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS) });
  if (response.status === 401 || response.status === 403) throw new Unauthorized();
  if (!response.ok) throw new BadAnswer(response.status);
  return response.json();
}
