// The page begins here: who is it?
import { ask, whenLoggedOut } from "./api.js";
import { showApp } from "./app.js";
import { followLink, loginPage } from "./login.js";
import { startTheme } from "./theme.js";

startTheme();
const trouble = await followLink();
let inside = false;

async function begin(said = null) {
  try {
    const me = await ask("/v1/me");
    inside = true;
    showApp(me, () => location.reload());
  } catch (error) {
    loginPage(said ?? (error.status === 401 ? null : error.message), begin);
  }
}

whenLoggedOut(() => {
  if (inside) location.reload();
});
await begin(trouble);
