//! Agents: the MCP endpoint, and OAuth as clients, browsers and attackers use it.

mod external_oauth;
mod foreign_clients;
mod mcp_conformance;
mod oauth_attacks;
mod oauth_pages;
mod oauth_pages_attacks;
mod oauth_pages_modules;
mod oauth_pages_redirects;
mod obedient;
mod official_clients;
mod one_use_urls;
mod policies;
mod tools;
