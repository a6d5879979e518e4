// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Loaded before the proxy. A user's program answers below /user/NAME/. With the header Service-Worker-Allowed, its page
// could install a service worker for the complete site, which stays in the browser and reads all later requests
// (https://www.w3.org/TR/service-workers/#service-worker-allowed). The proxy has no option for headers of answers.

"use strict";

const { ServerResponse } = require("http");

const setHeader = ServerResponse.prototype.setHeader;

ServerResponse.prototype.setHeader = function (name, value) {
  return String(name).toLowerCase() === "service-worker-allowed" ? this : setHeader.call(this, name, value);
};
