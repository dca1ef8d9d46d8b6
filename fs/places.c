#include "fs/places.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fs/file.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"

struct plan {
	struct place root, changed;
	char *root_path; /* as the kernel spells it; or NULL */
};

static bool writes(const struct file *file)
{
	return (file->flags & O_ACCMODE) != O_RDONLY;
}

/* Where an open file really is; false if that can't be told, or has no name. */
static bool find_real_place(const struct plan *plan, const struct file *file,
			    struct place *ret_place)
{
	autofree char *path = NULL;
	const char *rest;

	if (file->fd < 0 || !plan->root_path ||
	    fd_real_path(file->fd, &path) < 0 ||
	    !path_starts_with(path, plan->root_path, &rest))
		return false;
	*ret_place = policy_walk(plan->root, rest);
	return true;
}

static void plan_files(const struct plan *plan, struct inode *inode)
{
	for (const struct file *file = inode->files; file; file = file->next) {
		struct place place;

		if (find_real_place(plan, file, &place) &&
		    place_access(place) < place_access(inode->next))
			inode->next = place;
	}
}

/* Its parent, if it has one, has been planned. */
static void plan_one(const struct plan *plan, struct inode *inode)
{
	const struct inode *parent = inode->parent;

	if (!parent)
		inode->next = plan->root;
	else if (inode->name[0] == '\0')
		inode->next = policy_inside(parent->next);
	else
		inode->next = policy_step(parent->next, inode->name);
	inode->touched = place_equal(inode->next, plan->changed) ||
			 (parent && parent->touched);
	if (inode->type == S_IFREG)
		plan_files(plan, inode);
	inode->planned = inode->table->n_plans;
}

/* With all above it that haven't been planned, from the top. */
static void plan_inode(const struct plan *plan, struct inode *inode)
{
	uint64_t number = inode->table->n_plans;

	while (inode->planned != number) {
		struct inode *top = inode;

		while (top->parent && top->parent->planned != number)
			top = top->parent;
		plan_one(plan, top);
	}
}

void places_plan(struct inode_table *table, struct place root,
		 struct place changed)
{
	struct plan plan = {.root = root, .changed = changed};

	if (fd_real_path(table->root->fd, &plan.root_path) < 0)
		plan.root_path = NULL;
	pthread_mutex_lock(&table->lock);
	table->n_plans++;
	for (size_t i = 0; i < table->n_buckets; i++)
		for (struct inode *inode = table->by_id[i]; inode;
		     inode = inode->next_by_id)
			plan_inode(&plan, inode);
	pthread_mutex_unlock(&table->lock);
	free(plan.root_path);
}

void obstacles_release(struct obstacles *obstacles)
{
	for (size_t i = 0; i < obstacles->n; i++)
		free(obstacles->obstacle[i].path);
	free(obstacles->obstacle);
	*obstacles = (struct obstacles){0};
}

static int add_obstacle(struct obstacles *obstacles, enum obstacle_kind kind,
			const struct inode *inode)
{
	struct obstacle *grown =
		reallocarray(obstacles->obstacle, obstacles->n + 1,
			     sizeof(*obstacles->obstacle));
	char *path;

	if (!grown)
		return -ENOMEM;
	obstacles->obstacle = grown;
	path = inode_path_locked(inode);
	if (!path)
		return -ENOMEM;
	grown[obstacles->n++] = (struct obstacle){kind, path};
	return 0;
}

/* Can't what is open of it be held to the access that it is to have? */
static bool is_in_the_way(const struct inode *inode, enum obstacle_kind *kind)
{
	enum access next = place_access(inode->next);

	for (const struct file *file = inode->files; file; file = file->next) {
		if (file->passed_through &&
		    (writes(file) || next == ACCESS_NONE)) {
			*kind = OBSTACLE_PASSTHROUGH;
			return true;
		}
		if (writes(file) &&
		    __atomic_load_n(&file->mapped, __ATOMIC_RELAXED)) {
			*kind = OBSTACLE_MAPPING;
			return true;
		}
	}
	return false;
}

static int find_obstacle(const struct inode *inode, struct obstacles *obstacles)
{
	enum obstacle_kind kind;

	if (place_access(inode->next) >= place_access(inode->place) ||
	    !is_in_the_way(inode, &kind))
		return 0;
	return add_obstacle(obstacles, kind, inode);
}

int places_find_obstacles(struct inode_table *table,
			  struct obstacles *obstacles)
{
	int r = 0;

	pthread_mutex_lock(&table->lock);
	for (size_t i = 0; i < table->n_buckets; i++)
		for (struct inode *inode = table->by_id[i]; r == 0 && inode;
		     inode = inode->next_by_id)
			r = find_obstacle(inode, obstacles);
	pthread_mutex_unlock(&table->lock);
	return r;
}

void touched_release(struct touched_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->touched[i].name);
	free(list->touched);
	*list = (struct touched_list){0};
}

static bool is_touched(const struct inode *inode)
{
	return (inode->touched ||
		place_access(inode->next) != place_access(inode->place)) &&
	       (inode->lookups > 0 || !inode->parent);
}

static int add_touched(struct touched_list *list, const struct inode *inode)
{
	struct touched touched = {.nodeid = inode->nodeid};

	if (inode->parent && inode->name[0]) {
		touched.parent = inode->parent->nodeid;
		touched.name = strdup(inode->name);
		if (!touched.name)
			return -ENOMEM;
	}
	list->touched[list->n++] = touched;
	return 0;
}

int places_list_touched(struct inode_table *table, struct touched_list *ret)
{
	struct touched_list list = {0};
	int r = 0;

	pthread_mutex_lock(&table->lock);
	list.touched = calloc(table->n_inodes + 1, sizeof(*list.touched));
	if (!list.touched)
		r = -ENOMEM;
	for (size_t i = 0; i < table->n_buckets; i++)
		for (struct inode *inode = table->by_id[i]; r == 0 && inode;
		     inode = inode->next_by_id)
			if (is_touched(inode))
				r = add_touched(&list, inode);
	pthread_mutex_unlock(&table->lock);
	if (r < 0)
		touched_release(&list);
	else
		*ret = list;
	return r;
}

void places_move(struct inode_table *table)
{
	pthread_mutex_lock(&table->lock);
	for (size_t i = 0; i < table->n_buckets; i++)
		for (struct inode *inode = table->by_id[i]; inode;
		     inode = inode->next_by_id)
			inode->place = inode->next;
	inode_table_rehash(table);
	pthread_mutex_unlock(&table->lock);
}

static bool is_writable(const struct inode *inode)
{
	for (const struct file *file = inode->files; file; file = file->next)
		if (writes(file) && !file->passed_through)
			return true;
	return false;
}

int places_list_writable(struct inode_table *table, uint64_t **ret_ids,
			 size_t *ret_n)
{
	uint64_t *ids;
	size_t n = 0;

	pthread_mutex_lock(&table->lock);
	ids = calloc(table->n_inodes + 1, sizeof(*ids));
	for (size_t i = 0; ids && i < table->n_buckets; i++)
		for (const struct inode *inode = table->by_id[i]; inode;
		     inode = inode->next_by_id)
			if (is_writable(inode))
				ids[n++] = inode->nodeid;
	pthread_mutex_unlock(&table->lock);
	if (!ids)
		return -ENOMEM;
	*ret_ids = ids;
	*ret_n = n;
	return 0;
}
