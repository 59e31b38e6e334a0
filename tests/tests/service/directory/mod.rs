//! Tests in which the database matters beyond single statements: concurrent transactions, other
//! processes and mail servers that read it, starts and outages.
//!
//! These tests run on SQLite and once more on PostgreSQL.

mod backup;
mod dkim;
mod dkim_milter;
mod key_rotation;
mod module_management;
mod modules_store;
mod operator_accounts;
mod operator_doctor;
mod operator_domains;
mod operator_imports;
mod operator_settings;
mod s4_1_service;
mod s4_2_authentication;
mod s4_3_identity;
mod s4_3_numbers;
mod s4_3_random;
mod s4_3_repeats;
mod s4_4_aliases;
mod s4_7_domains;
