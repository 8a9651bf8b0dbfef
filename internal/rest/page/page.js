// Draws the page: Get started, then the API reference. The page sends no request to another host. An API key that a user enters
// is kept only in memory, until the page is closed.
'use strict';

const fetched = (path) => fetch(path).then((answer) => {
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer;
});

// Returns the text with the host of this page instead of localhost. The server has already set the gRPC port.
const here = (text) => text
  .replaceAll('http://localhost:8080', location.origin)
  .replaceAll(/\blocalhost:(\d+)/g, `${location.hostname}:$1`);

// openStart expands the introduction in the table of contents. The reference collapses it and has no setting for this.
function openStart() {
  for (const label of document.querySelectorAll('aside .sr-only')) {
    if (label.textContent.trim() === 'Open Group - Introduction') label.closest('button')?.click();
  }
}

async function draw() {
  const [contract, start] = await Promise.all([
    fetched('/openapi.json').then((answer) => answer.json()),
    fetched('/page/start.md').then((answer) => answer.text()),
  ]);
  contract.info.description += `\n\n${here(start)}`;
  document.getElementById('plain').hidden = true;
  Scalar.createApiReference('#reference', {
    content: contract,
    metaData: { title: 'Easel' },
    favicon: '/page/icon.svg',
    modelsSectionLabel: 'Messages',
    authentication: { preferredSecurityScheme: 'bearer' },
    // Without these settings the page would load data from other hosts, store data, or offer to send data there.
    withDefaultFonts: false,
    persistAuth: false,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    hideClientButton: true,
    showDeveloperTools: 'never',
    // The languages with stubs, each with its usual HTTP client.
    defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
    hiddenClients: {
      c: true, clojure: true, csharp: true, dart: true, fsharp: true, http: true, kotlin: true, node: true, objc: true,
      ocaml: true, php: true, powershell: true, r: true, ruby: true, rust: true, swift: true,
      shell: ['httpie', 'wget'], js: ['axios', 'jquery', 'ofetch', 'xhr'], python: ['python3', 'httpx_sync', 'httpx_async', 'aiohttp'],
      java: ['asynchttp', 'okhttp', 'unirest'],
    },
    documentDownloadType: 'json',
    onLoaded: openStart,
  });
}

draw().catch((problem) => {
  const text = document.createElement('p');
  text.textContent = `The page can't be drawn: ${problem.message}`;
  document.getElementById('plain').append(text);
  document.getElementById('plain').hidden = false;
});
