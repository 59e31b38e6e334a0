//! The sandbox: what modules can do, what they cannot do, and how they are replaced.

mod compare;
mod contract;
mod examples;
mod fake_hosts;
pub(crate) mod handlers;
mod handlers_loading;
mod hostile_modules;
mod memory;
mod memory_protection;
mod module_log;
mod module_pages;
mod module_projects;
mod modules_authors;
mod modules_capacity;
mod modules_http_client;
mod modules_languages;
mod modules_reuse;
mod modules_serving;
mod modules_swap;
mod password_guesses;
mod scenarios;
mod standard_components;
