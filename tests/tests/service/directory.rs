//! Tests in which the database matters beyond single statements: concurrent transactions, other
//! processes and mail servers that read it, starts and outages.
//!
//! These tests run on SQLite and once more on PostgreSQL.

mod account_deletion;
mod aliases;
mod authentication;
mod backup;
mod confirmed_changes;
mod dkim;
mod dkim_milter;
mod domains;
mod key_rotation;
mod mail_routes;
mod message_identity;
mod message_numbers;
mod module_management;
mod modules_store;
mod operator_accounts;
mod operator_doctor;
mod operator_domains;
mod operator_imports;
mod operator_settings;
mod random_mail_changes;
mod repeated_sends;
mod service_routes;
