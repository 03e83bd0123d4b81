#include "harness/history/sqlite.h"

#include <sqlite3.h>

namespace recapture {
namespace {

constexpr int kWaitMs = 20'000;  // A writer holds the file for as long as it takes to put a few records in.

void check(int code, sqlite3* database) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  throw SqlError(code, database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code));
}

}  // namespace

const int SqlError::kCorrupt = SQLITE_CORRUPT;

bool SqlError::is_corrupt() const {
  const int kind = code_ & 0xff;
  return kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_FORMAT;
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::reset() { sqlite3_reset(statement_.get()); }

void Statement::bind(int at, int64_t number) {
  check(sqlite3_bind_int64(statement_.get(), at, number), sqlite3_db_handle(statement_.get()));
}

void Statement::bind(int at, std::string_view text) {
  check(sqlite3_bind_text64(statement_.get(), at, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8),
        sqlite3_db_handle(statement_.get()));
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code != SQLITE_ROW) sqlite3_reset(statement_.get());  // What it has read of the file is let go.
  check(code, sqlite3_db_handle(statement_.get()));
  return code == SQLITE_ROW;
}

int64_t Statement::number(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string_view Statement::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return "";
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Database::Database(const std::string& path) {
  sqlite3* database = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW;
  const int code = sqlite3_open_v2(path.c_str(), &database, kFlags, nullptr);
  database_.reset(database);
  check(code, database);
  sqlite3_busy_timeout(database, kWaitMs);
  // Nothing that stands in the file is run: others may write it.
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr),
        database_.get());
  return Statement(statement);
}

void Database::run(const std::string& sql) {
  check(sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr), database_.get());
}

void Database::empty() {
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_RESET_DATABASE, 1, nullptr);
  const int code = sqlite3_exec(database_.get(), "VACUUM", nullptr, nullptr, nullptr);
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_RESET_DATABASE, 0, nullptr);
  check(code, database_.get());
}

Transaction::Transaction(Database& database, Kind kind) : database_(&database) {
  database.run(kind == Kind::Write ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  try {
    database_->run("ROLLBACK");
  } catch (const SqlError&) {  // SQLite has rolled it back by itself, as after a full disk.
  }
}

void Transaction::commit() {
  database_->run("COMMIT");
  database_ = nullptr;
}

}  // namespace recapture
