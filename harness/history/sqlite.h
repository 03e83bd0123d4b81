// SQLite, as far as the index needs it: a database and its statements, closed by themselves.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace recapture {

class SqlError : public std::runtime_error {
 public:
  SqlError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  static const int kCorrupt;  // As SQLite has it.
  // The file is no database, or a damaged one.
  bool is_corrupt() const;

 private:
  int code_;
};

// Bound, stepped and read from left to right. Text that it gives is good until the next step.
class Statement {
 public:
  template <class... T>
  Statement& operator()(const T&... values) {
    reset();
    int at = 0;
    (bind(++at, values), ...);
    return *this;
  }
  // Whether there is a row.
  bool step();
  // For statements that have none.
  void run() {
    while (step()) {
    }
  }
  int64_t number(int column) const;
  std::string_view text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  void reset();
  void bind(int at, int64_t number);
  void bind(int at, std::string_view text);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// Everything throws SqlError. A file that another process is writing is waited for.
class Database {
 public:
  // The path of a file, made if need be, which is no symbolic link; or ":memory:".
  explicit Database(const std::string& path);
  Statement prepare(std::string_view sql);
  void run(const std::string& sql);
  // Leaves nothing of what the file had, be it a database or not.
  void empty();

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

// Rolled back where it is not committed.
class Transaction {
 public:
  enum class Kind { Read, Write };
  Transaction(Database& database, Kind kind);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Database* database_;
};

}  // namespace recapture
